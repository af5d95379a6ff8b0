// One interface for the four versions of NCCL's table of one-sided communication (v13 to v16). It treats an
// older table as the shims of NCCL do. Several ranks may be in one process: each has a context of its own.
// Threads follow NCCL's contract: a context is used by one progress thread; connect and createContext block
// until all ranks of the group call them, and so may regMr.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "cli/plugin/net_api.h"
#include "nccl/rma_v14.h"
#include "nccl/types.h"

namespace railwise::cli {

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

// A rank's member of a group of one-sided communication, with one context: what NCCL makes of an RMA table,
// in the order of NCCL's calls. Threads follow NCCL's contract (rma_api.h).

// What is put with a signal, or without one, or read.
enum class RmaKind { kPut, kPutSignal, kGet };

// Functions that return false, or null, leave the reason in error(). The first failure counts. Any thread may
// ask for it.
class RmaMember {
 public:
  explicit RmaMember(RmaApi& api) : api_(api) {}
  RmaMember(const RmaMember&) = delete;
  RmaMember& operator=(const RmaMember&) = delete;

  // After init. `handle`: NCCL_NET_HANDLE_MAXSIZE bytes.
  bool listen(int device, void* handle);
  // `handles`: of all ranks. Blocks until all ranks of the group call it.
  bool join(std::span<void*> handles, int rank);
  // Registers host memory. All ranks register in one order. Null: it failed.
  void* add(void* data, std::size_t bytes, uint64_t flags);
  // The objects of the group, in NCCL's order. The memory may go afterwards.
  bool close();

  // Adds to the signal only if `kind` asks for it. Returns the request; null: it failed.
  void* post(RmaKind kind, const RmaPlace& mine, std::size_t bytes, const RmaPlace& theirs, uint32_t rank,
             const RmaSignal& signal);
  // True: the request is done, and has gone.
  bool test(void* request);
  bool progress() { return check("rmaProgress", api_.progress(context_)); }

  void* context() const { return context_; }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // For example "iput failed: ncclRemoteError (...)". Empty: nothing has failed.
  std::string error() const { return failed() ? error_ : std::string(); }
  ncclResult_t result() const { return failed() ? result_ : ncclSuccess; }

 private:
  bool check(const char* call, ncclResult_t result) { return result == ncclSuccess || fail(call, result); }
  bool fail(const char* call, ncclResult_t result);

  RmaApi& api_;
  void* listener_ = nullptr;
  void* group_ = nullptr;
  void* context_ = nullptr;
  std::vector<void*> windows_;
  std::mutex failing_;
  std::atomic<bool> failed_ = false;
  std::string error_;  // as the result, written before `failed_`
  ncclResult_t result_ = ncclSuccess;
};

}  // namespace railwise::cli
