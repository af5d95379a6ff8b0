#include "benchmarks/bench/load/traffic.h"

#include <algorithm>
#include <array>

#include "cli/options/message.h"

namespace railwise::cli {
namespace {

constexpr int kTag = 77;  // tag of the first buffer of a group
// NCCL_NET_OPTIONAL_RECV_COMPLETION: NCCL 2.24 and later pass it to irecv in the request.
void* const kOptionalCompletion = reinterpret_cast<void*>(1);

}  // namespace

BenchEnd::BenchEnd(NetApi& api, BenchShape shape)
    : late_(shape.gpu_delay > 0 || shape.optional_completion),
      api_(api),
      shape_(shape),
      group_(static_cast<uint64_t>(shape.grouped)),
      slots_(static_cast<uint64_t>(shape.window) * group_),
      requests_(slots_),
      done_at_(shape.gpu_delay > 0 ? static_cast<std::size_t>(shape.window) : 0),
      stride_(roundUp(std::max<std::size_t>(shape.size, 1), kCacheLine)),
      bytes_(roundUp(slots_ * stride_, kPage)) {}

void BenchEnd::note(const char* call, ncclResult_t result) {
  if (error_.empty()) error_ = textOf("%s failed: %s", call, resultText(result).c_str());
}

void BenchEnd::consumeLate() {
  ++pass_;
  if (shape_.gpu_delay == 0) consumed_ = done_;
  while (consumed_ < done_ &&
         done_at_[(consumed_ / group_) % done_at_.size()] + static_cast<uint64_t>(shape_.gpu_delay) <= pass_)
    consumed_ += std::min(group_, done_ - consumed_);
}

bool BenchEnd::registerMemory() {
  memory_ = allocatePages(bytes_);
  if (memory_ == nullptr) {
    error_ = textOf("no memory for %zu bytes", bytes_);
    return false;
  }
  return check("regMr", api_.regMr(comm_, memory_.get(), bytes_, NCCL_PTR_HOST, &mhandle_));
}

bool BenchEnd::registerOnce(std::byte* memory, std::size_t bytes) {
  void* mhandle = nullptr;
  return check("regMr", api_.regMr(comm_, memory, bytes, NCCL_PTR_HOST, &mhandle)) &&
         check("deregMr", api_.deregMr(comm_, mhandle));
}

BenchSender::BenchSender(NetApi& api, BenchShape shape) : BenchEnd(api, shape), post_tag_(kTag) {}

bool BenchSender::connect(int device, void* handle) {
  return check("connect", api_.connect(device, handle, &comm_));
}

bool BenchSender::post() {
  void*& request = requests_[post_slot_];
  request = nullptr;
  if (verifying_) {
    for (std::size_t i = 0; i < shape_.size; ++i) at(post_slot_)[i] = checkedByte(posted_, i);
  }
  if (!check("isend", api_.isend(comm_, at(post_slot_), shape_.size, post_tag_, mhandle_, &request)))
    return false;
  if (request == nullptr) return false;
  ++posted_;
  advanceSlot(post_slot_, 1, slots_);
  post_tag_ = post_tag_ + 1 == kTag + shape_.grouped ? kTag : post_tag_ + 1;
  return true;
}

bool BenchSender::test() {
  int done = 0;
  int bytes = 0;
  if (!check("test", api_.test(requests_[test_slot_], &done, &bytes)) || done == 0) return false;
  noteDone(1);
  advanceSlot(test_slot_, 1, slots_);
  return true;
}

bool BenchSender::pass() {
  if (late_) consumeLate();
  const bool posted = ready() && post();
  const bool tested = done_ < posted_ && test();
  return posted || tested;
}

bool BenchSender::close() { return deregisterMemory() && check("closeSend", api_.closeSend(comm_)); }

BenchReceiver::BenchReceiver(NetApi& api, BenchShape shape) : BenchEnd(api, shape) {}

bool BenchReceiver::listen(int device, void* handle) {
  return check("listen", api_.listen(device, handle, &listener_));
}

bool BenchReceiver::accept() {
  if (!check("accept", api_.accept(listener_, &comm_))) return false;
  return !connected() || check("closeListen", api_.closeListen(listener_));
}

bool BenchReceiver::post() {
  void*& request = requests_[post_slot_];
  request = shape_.optional_completion ? kOptionalCompletion : nullptr;
  std::array<NetApi::Buffer, kMaxGroup> buffers;
  for (std::size_t i = 0; i < group_; ++i)
    buffers[i] = {at(post_slot_ + i), shape_.size, kTag + static_cast<int>(i), mhandle_};
  if (!check("irecv", api_.irecvGroup(comm_, {buffers.data(), group_}, &request)) || request == nullptr ||
      request == kOptionalCompletion)
    return false;
  posted_ += group_;
  advanceSlot(post_slot_, group_, slots_);
  return true;
}

bool BenchReceiver::test() {
  int done = 0;
  std::array<int, kMaxGroup> sizes = {};
  if (!check("test", api_.test(requests_[test_slot_], &done, sizes.data())) || done == 0) return false;
  const bool arrived = sender_ == nullptr;
  for (uint64_t i = 0; verifying_ && arrived && i < group_; ++i) {
    if (!right(done_ + i, test_slot_ + i)) return false;
  }
  noteDone(group_);
  advanceSlot(test_slot_, group_, slots_);
  return true;
}

// Consumes the data of receives whose arrival the sender's completions have shown.
void BenchReceiver::consumeArrived() {
  for (; consumed_ < std::min(done_, sender_->done()); ++consumed_) {
    if (verifying_ && !right(consumed_, consumed_ % slots_)) return;
  }
}

bool BenchReceiver::pass() {
  const uint64_t before = consumed_;
  if (late_) sender_ != nullptr ? consumeArrived() : consumeLate();
  if (ready() && post()) return true;
  return (done_ < posted_ && test()) || consumed_ != before;
}

bool BenchReceiver::right(uint64_t message, uint64_t slot) {
  for (std::size_t i = 0; i < shape_.size; ++i) {
    if (at(slot)[i] == checkedByte(message, i)) continue;
    error_ = textOf("wrong data: byte %zu of a message of %zu bytes", i, shape_.size);
    return false;
  }
  return true;
}

bool BenchReceiver::close() { return deregisterMemory() && check("closeRecv", api_.closeRecv(comm_)); }

Outcome<void> connectEnds(BenchSender& sender, BenchReceiver& receiver, int device) {
  alignas(8) char handle[NCCL_NET_HANDLE_MAXSIZE] = {};
  bool right = receiver.listen(device, handle);
  const Deadline deadline = Deadline::after(Patience::kLimit);
  while (right && !(sender.connected() && receiver.connected())) {
    right =
        (sender.connected() || sender.connect(device, handle)) && (receiver.connected() || receiver.accept());
    if (right && deadline.passed()) return Error{"no connection within 30 s"};
  }
  if (!right) return Error{sender.error().empty() ? receiver.error() : sender.error()};
  return {};
}

}  // namespace railwise::cli
