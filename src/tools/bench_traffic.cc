#include "tools/bench_traffic.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "tools/message.h"

namespace railwise::tools {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kCacheLine = 64;
constexpr int kTag = 77;                   // of the first buffer of a group
constexpr uint64_t kIdleRounds = 1 << 14;  // between two looks at the clock
constexpr auto kPatience = std::chrono::seconds(30);

std::byte expected(uint64_t message, std::size_t i) {
  return static_cast<std::byte>(message * 31 + i * 7 + (i >> 8));
}

}  // namespace

void BenchTraffic::Free::operator()(std::byte* memory) const { std::free(memory); }

BenchTraffic::BenchTraffic(NetApi& api, int device, BenchShape shape)
    : api_(api),
      device_(device),
      shape_(shape),
      group_(static_cast<uint64_t>(shape.grouped)),
      slots_(std::max<uint64_t>(static_cast<uint64_t>(shape.window) / group_, 1) * group_),
      stride_((std::max<std::size_t>(shape.size, 1) + kCacheLine - 1) / kCacheLine * kCacheLine),
      sends_(slots_),
      receives_(slots_ / group_) {}

BenchTraffic::~BenchTraffic() = default;

bool BenchTraffic::check(const char* call, ncclResult_t result) {
  if (result != ncclSuccess && error_.empty())
    error_ = textOf("%s failed: %s", call, resultText(result).c_str());
  return result == ncclSuccess;
}

bool BenchTraffic::connect() {
  const std::size_t bytes = (slots_ * stride_ + kPage - 1) / kPage * kPage;
  for (Memory* memory : {&from_, &to_}) {
    memory->reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
    if (*memory == nullptr) {
      error_ = textOf("no memory for %zu bytes", bytes);
      return false;
    }
    std::memset(memory->get(), 0, bytes);
  }
  alignas(8) char handle[NCCL_NET_HANDLE_MAXSIZE] = {};
  if (!check("listen", api_.listen(device_, handle, &listener_))) return false;
  const Deadline deadline = Deadline::after(kPatience);
  while (send_ == nullptr || receive_ == nullptr) {
    if (send_ == nullptr && !check("connect", api_.connect(device_, handle, &send_))) return false;
    if (receive_ == nullptr && !check("accept", api_.accept(listener_, &receive_))) return false;
    if (deadline.passed()) {
      error_ = "no connection within 30 s";
      return false;
    }
  }
  return check("closeListen", api_.closeListen(listener_)) &&
         check("regMr", api_.regMr(send_, from_.get(), bytes, NCCL_PTR_HOST, &from_handle_)) &&
         check("regMr", api_.regMr(receive_, to_.get(), bytes, NCCL_PTR_HOST, &to_handle_));
}

bool BenchTraffic::close() {
  return check("deregMr", api_.deregMr(send_, from_handle_)) &&
         check("deregMr", api_.deregMr(receive_, to_handle_)) && check("closeSend", api_.closeSend(send_)) &&
         check("closeRecv", api_.closeRecv(receive_));
}

void BenchTraffic::fill(uint64_t message) {
  for (std::size_t i = 0; i < shape_.size; ++i) at(from_, message)[i] = expected(message, i);
}

bool BenchTraffic::right(uint64_t message) {
  for (std::size_t i = 0; i < shape_.size; ++i) {
    if (at(to_, message)[i] == expected(message, i)) continue;
    error_ = textOf("wrong data: byte %zu of a message of %zu bytes", i, shape_.size);
    return false;
  }
  return true;
}

bool BenchTraffic::postReceive() {
  void*& request = receives_[receive_posted_ / group_ % receives_.size()];
  request = nullptr;
  std::array<NetApi::Buffer, kMaxGroup> buffers;
  for (std::size_t i = 0; i < group_; ++i)
    buffers[i] = {at(to_, receive_posted_ + i), shape_.size, kTag + static_cast<int>(i), to_handle_};
  if (!check("irecv",
             api_.irecvGroup(receive_, {buffers.data(), static_cast<std::size_t>(group_)}, &request)))
    return false;
  if (request != nullptr) receive_posted_ += group_;
  return request != nullptr;
}

bool BenchTraffic::postSend() {
  void*& request = sends_[send_posted_ % slots_];
  request = nullptr;
  if (verifying_) fill(send_posted_);
  const int tag = kTag + static_cast<int>(send_posted_ % group_);
  if (!check("isend", api_.isend(send_, at(from_, send_posted_), shape_.size, tag, from_handle_, &request)))
    return false;
  if (request != nullptr) ++send_posted_;
  return request != nullptr;
}

bool BenchTraffic::testReceive() {
  int done = 0;
  std::array<int, kMaxGroup> sizes = {};
  if (!check("test", api_.test(receives_[received_ / group_ % receives_.size()], &done, sizes.data())))
    return false;
  if (done == 0) return false;
  for (uint64_t i = 0; verifying_ && i < group_; ++i) {
    if (!right(received_ + i)) return false;
  }
  received_ += group_;
  return true;
}

bool BenchTraffic::testSend() {
  int done = 0;
  int bytes = 0;
  if (!check("test", api_.test(sends_[sent_ % slots_], &done, &bytes))) return false;
  sent_ += done != 0 ? 1 : 0;
  return done != 0;
}

bool BenchTraffic::run(uint64_t messages) {
  const uint64_t end = received_ + (messages + group_ - 1) / group_ * group_;
  uint64_t idle = 0;
  Deadline deadline = Deadline::after(kPatience);
  while ((received_ < end || sent_ < end) && error_.empty()) {
    const uint64_t before = receive_posted_ + received_ + send_posted_ + sent_;
    while (receive_posted_ < end && receive_posted_ - received_ < slots_ && postReceive()) {
    }
    while (send_posted_ < end && send_posted_ - sent_ < slots_ && postSend()) {
    }
    while (received_ < receive_posted_ && testReceive()) {
    }
    while (sent_ < send_posted_ && testSend()) {
    }
    idle = before == receive_posted_ + received_ + send_posted_ + sent_ ? idle + 1 : 0;
    if (idle == 0 || idle % kIdleRounds != 0) continue;
    if (idle == kIdleRounds) deadline = Deadline::after(kPatience);
    if (deadline.passed())
      error_ = textOf("nothing moves any more: %llu of %llu messages received",
                      static_cast<unsigned long long>(received_), static_cast<unsigned long long>(end));
  }
  return error_.empty();
}

bool BenchTraffic::verify(uint64_t messages) {
  verifying_ = true;
  const bool all_right = run(messages);
  verifying_ = false;
  return all_right;
}

}  // namespace railwise::tools
