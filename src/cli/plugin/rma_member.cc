#include "cli/plugin/rma_member.h"

#include <algorithm>
#include <utility>

namespace railwise::cli {

bool RmaMember::listen(int device, void* handle) {
  return check("listen", api_.listen(device, handle, &listener_));
}

bool RmaMember::join(std::span<void*> handles, int rank) {
  return check("connect", api_.connect(handles, rank, listener_, &group_)) &&
         check("closeListen", api_.closeListen(std::exchange(listener_, nullptr))) &&
         check("createContext", api_.createContext(group_, &context_));
}

void* RmaMember::add(void* data, std::size_t bytes, uint64_t flags) {
  void* window = nullptr;
  if (!check("regMrSym", api_.regMr(group_, data, bytes, NCCL_PTR_HOST, flags, &window))) return nullptr;
  windows_.push_back(window);
  return window;
}

bool RmaMember::close() {
  return check("destroyContext", api_.destroyContext(context_)) &&
         std::all_of(windows_.begin(), windows_.end(),
                     [this](void* window) { return check("deregMrSym", api_.deregMr(group_, window)); }) &&
         check("closeColl", api_.closeGroup(group_));
}

void* RmaMember::post(RmaKind kind, const RmaPlace& mine, std::size_t bytes, const RmaPlace& theirs,
                      uint32_t rank, const RmaSignal& signal) {
  void* request = nullptr;
  const char* call = "iput";
  ncclResult_t result = ncclSuccess;
  switch (kind) {
    case RmaKind::kPut:
      result = api_.put(context_, mine, bytes, theirs, rank, &request);
      break;
    case RmaKind::kPutSignal:
      call = "iputSignal";
      result = api_.putSignal(context_, mine, bytes, theirs, rank, signal, &request);
      break;
    case RmaKind::kGet:
      call = "iget";
      result = api_.get(context_, theirs, bytes, mine, rank, &request);
  }
  // For NCCL an operation without a request is an error, too.
  if (check(call, result) && request == nullptr) fail(call, ncclInternalError);
  return request;
}

bool RmaMember::test(void* request) {
  int done = 0;
  return check("test", api_.test(group_, request, &done)) && done != 0;
}

bool RmaMember::fail(const char* call, ncclResult_t result) {
  const std::lock_guard lock(failing_);
  if (failed()) return false;
  error_ = std::string(call) + " failed: " + resultText(result);
  result_ = result;
  failed_.store(true, std::memory_order_release);
  return false;
}

}  // namespace railwise::cli
