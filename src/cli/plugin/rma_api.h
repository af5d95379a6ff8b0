// One interface for the four versions of NCCL's table of one-sided communication (v13 to v16). It treats an
// older table as the shims of NCCL do. Several ranks may be in one process: each has a context of its own.
// Threads follow NCCL's contract: a context is used by one progress thread; connect and createContext block
// until all ranks of the group call them, and so may regMr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/outcome.h"
#include "cli/plugin/net_api.h"
#include "nccl/rma_v14.h"
#include "nccl/types.h"

namespace railwise::cli {

inline constexpr int kOldestRmaApi = 13;
inline constexpr int kNewestRmaApi = 16;

// A place in a registered window: of this rank, or the corresponding place of another rank.
struct RmaPlace {
  void* window = nullptr;  // NCCL's mhandle
  uint64_t offset = 0;     // in bytes
};

// Adds `value` to the 64-bit number at a place of the other rank.
struct RmaSignal {
  RmaPlace at;
  uint64_t value = 1;
};

// How NCCL registers the signals of host RMA.
inline constexpr uint64_t kRmaSignalFlags = NCCL_NET_MR_FLAG_FORCE_SO | NCCL_NET_MR_FLAG_SIGNAL_NEVER_RESET;

class RmaApi : public PluginApi {
 public:
  // `table` is the symbol ncclRmaPlugin_v<version>. It is an error if the table has no init.
  static Outcome<std::unique_ptr<RmaApi>> create(int version, void* table);
  // The same table for another rank of this process, with a context of its own.
  virtual std::unique_ptr<RmaApi> another() const = 0;
  // NCCL lets a table have no iget. Ask after init.
  virtual bool canGet() const = 0;
  // NCCL has at most 32 times max_recvs operations under way for each context and peer.
  virtual ncclResult_t listen(int device, void* handle, void** listener) = 0;
  virtual ncclResult_t connect(std::span<void*> handles, int rank, void* listener, void** group) = 0;
  virtual ncclResult_t createContext(void* group, void** context) = 0;
  virtual ncclResult_t regMr(void* group, void* data, std::size_t bytes, int type, uint64_t flags,
                             void** window) = 0;
  virtual ncclResult_t deregMr(void* group, void* window) = 0;
  virtual ncclResult_t put(void* context, const RmaPlace& from, std::size_t bytes, const RmaPlace& to,
                           uint32_t rank, void** request) = 0;
  virtual ncclResult_t putSignal(void* context, const RmaPlace& from, std::size_t bytes, const RmaPlace& to,
                                 uint32_t rank, const RmaSignal& signal, void** request) = 0;
  virtual ncclResult_t get(void* context, const RmaPlace& from, std::size_t bytes, const RmaPlace& to,
                           uint32_t rank, void** request) = 0;
  virtual ncclResult_t test(void* group, void* request, int* done) = 0;
  // NCCL calls it all the time, at ranks that only receive too. Does nothing if the table has none.
  virtual ncclResult_t progress(void* context) = 0;
  virtual ncclResult_t destroyContext(void* context) = 0;
  virtual ncclResult_t closeGroup(void* group) = 0;
  virtual ncclResult_t closeListen(void* listener) = 0;

 protected:
  explicit RmaApi(int version) : PluginApi(version) {}
};

}  // namespace railwise::cli
