#include "net/rma/own_rank.h"

#include <algorithm>
#include <cstring>

namespace railwise::net {

void OwnRank::progress() {
  while (!open_.empty() && !operation_.busy()) {
    RmaRequest& request = *open_.front();
    const RmaWindow* const target = request.kind == RmaRequest::Kind::kFlush ? request.local
                                    : request.bytes > 0 ? windows_[request.remote_window].get()
                                                        : nullptr;
    const bool in_gpu = target != nullptr && target->inGpu();
    const bool failed = std::exchange(operation_.failed, false);
    if (step_ == Step::kFlush && failed) {
      unflushed_ |= flushing_;
      step_ = Step::kBegin;
    } else if (step_ == Step::kFlush) {
      step_ = Step::kCopy;
    } else if (step_ == Step::kCopy && failed) {
      copied_ = 0;  // once more, from the begin
    }
    if (step_ == Step::kBegin) {
      copied_ = 0;
      copied_over_ = 0;
      flushing_ = in_gpu ? std::exchange(unflushed_, 0) & loopback_.flushable() : 0;
      if (flushing_ != 0) {
        loopback_.flush(flushing_, *target->memory, target->address, operation_);
        step_ = Step::kFlush;
        return;
      }
      step_ = Step::kCopy;
    }
    if (request.kind == RmaRequest::Kind::kSelfPut && copied_ < request.bytes) {
      if (!copy(request)) return;
      if (operation_.busy()) return;
      if (copied_ < request.bytes) continue;
    }
    finish(request);
  }
}

// The next piece. False: it cannot be posted now.
bool OwnRank::copy(RmaRequest& request) {
  const RmaWindow& from = *request.local;
  const RmaWindow& to = *windows_[request.remote_window];
  if (!from.inGpu() && !to.inGpu()) {
    std::memmove(reinterpret_cast<void*>(to.address + request.remote_offset),
                 reinterpret_cast<const void*>(from.address + request.local_offset), request.bytes);
    copied_ = request.bytes;
    return true;
  }
  const std::optional<std::size_t> rail = loopback_.choose(UINT32_MAX);
  if (!rail) return false;
  const auto bytes =
      static_cast<uint32_t>(std::min<uint64_t>(request.bytes - copied_, loopback_.mostBytes(*rail)));
  if (!loopback_.copy(*rail, *from.memory, from.address + request.local_offset + copied_, *to.memory,
                      to.address + request.remote_offset + copied_, bytes, operation_))
    return false;
  copied_ += bytes;
  copied_over_ |= uint32_t{1} << *rail;
  return true;
}

void OwnRank::finish(RmaRequest& request) {
  if (request.number != 0)
    slots_.add(*windows_[request.signal_window], request.signal_offset, request.signal_value, copied_over_,
               unflushed_ | copied_over_);
  request.state = RmaRequest::State::kDone;
  open_.pop_front();
  step_ = Step::kBegin;
}

}  // namespace railwise::net
