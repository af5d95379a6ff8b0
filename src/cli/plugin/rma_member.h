// A rank's member of a group of one-sided communication, with one context: what NCCL makes of an RMA table,
// in the order of NCCL's calls. Threads follow NCCL's contract (rma_api.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cli/plugin/rma_api.h"

namespace railwise::cli {

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
