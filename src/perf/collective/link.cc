#include "perf/collective/link.h"

#include "cli/options/message.h"
#include "perf/job/worker.h"

namespace railwise::cli {

Link::Link(NetContext& net, int peer, std::size_t slot_bytes, void* comm)
    : net_(net),
      peer_(peer),
      slot_bytes_(slot_bytes),
      comm_(comm),
      memory_(allocatePages(kSlots * slot_bytes)) {}

Status Link::open() {
  if (memory_ == nullptr) {
    net_.failure.set(textOf("no memory for %zu bytes of staging slots", kSlots * slot_bytes_));
    return {Code::kSystem};
  }
  const ncclResult_t result =
      net_.api.regMr(comm_, memory_.get(), kSlots * slot_bytes_, NCCL_PTR_HOST, &mhandle_);
  if (result == ncclSuccess) return Status::success();
  return net_.failed(textOf("regMr of %zu bytes for rank %d", kSlots * slot_bytes_, peer_), result);
}

Status Link::closeBy(ncclResult_t (NetApi::*end)(void*), const char* call) {
  if (const ncclResult_t result = net_.api.deregMr(comm_, mhandle_); result != ncclSuccess)
    return net_.failed(textOf("deregMr for rank %d", peer_), result);
  const ncclResult_t result = (net_.api.*end)(comm_);
  return result == ncclSuccess ? Status::success() : net_.failed(textOf("%s rank %d", call, peer_), result);
}

Result<bool> SendLink::poll() {
  if (net_.gate.closed()) return Status{Code::kRemote};
  bool moved = false;
  if (posted_ < staged_) {
    void*& request = requests_[posted_ % kSlots];
    // NCCL tags a send with the sender's rank, and a receive with the rank that sends to it.
    const ncclResult_t result =
        net_.api.isend(comm_, slot(posted_), sizes_[posted_ % kSlots], net_.rank, mhandle_, &request);
    if (result != ncclSuccess) return net_.failed(textOf("isend to rank %d", peer_), result);
    if (request != nullptr) {  // null: the plugin cannot send now
      ++posted_;
      moved = true;
    }
  }
  if (done_ < posted_) {
    int done = 0;
    int bytes = 0;
    const ncclResult_t result = net_.api.test(requests_[done_ % kSlots], &done, &bytes);
    if (result != ncclSuccess) return net_.failed(textOf("test of a send to rank %d", peer_), result);
    if (done != 0) {
      ++done_;
      moved = true;
    }
  }
  return moved;
}

Result<bool> RecvLink::poll() {
  if (net_.gate.closed()) return Status{Code::kRemote};
  bool moved = false;
  if (posted_ < expected_ && posted_ - consumed_ < kSlots) {
    void*& request = requests_[posted_ % kSlots];
    const ncclResult_t result = net_.api.irecv(comm_, slot(posted_), slot_bytes_, peer_, mhandle_, &request);
    if (result != ncclSuccess) return net_.failed(textOf("irecv from rank %d", peer_), result);
    if (request != nullptr) {
      ++posted_;
      moved = true;
    }
  }
  if (arrived_ < posted_) {
    int done = 0;
    int bytes = 0;
    const ncclResult_t result = net_.api.test(requests_[arrived_ % kSlots], &done, &bytes);
    if (result != ncclSuccess) return net_.failed(textOf("test of a receive from rank %d", peer_), result);
    if (done != 0) {
      sizes_[arrived_ % kSlots] = static_cast<std::size_t>(bytes);
      ++arrived_;
      net_.received.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
      moved = true;
    }
  }
  return moved;
}

Status RecvLink::wrongSize(std::size_t expected) {
  net_.failure.set(textOf("a message of %zu bytes came from rank %d instead of one of %zu", message().size(),
                          peer_, expected));
  return {Code::kRemote};
}

}  // namespace railwise::cli
