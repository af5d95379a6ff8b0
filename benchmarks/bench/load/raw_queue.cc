#include "benchmarks/bench/load/raw_queue.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "cli/options/message.h"
#include "verbs/memory_region.h"

namespace railwise::cli {
namespace {

constexpr uint32_t kInlineBytes = 220;  // as in ib_write_lat
constexpr int kPolled = 16;             // completions per call, as in ib_write_bw

verbs::Context openDevice(int index) {
  int count = 0;
  ibv_device** const list = verbs::library().get_device_list(&count);
  verbs::Context context(index < count ? verbs::library().open_device(list[index]) : nullptr);
  if (list != nullptr) verbs::library().free_device_list(list);
  return context;
}

int patternOf(uint64_t slot) { return static_cast<int>(slot % 255) + 1; }

}  // namespace

RawQueue::RawQueue(const Config& config, BenchShape shape)
    : config_(config),
      bytes_(std::max<std::size_t>(shape.size, 1)),
      stride_(roundUp(bytes_, kCacheLine)),
      slots_(static_cast<uint64_t>(shape.window)) {}

Outcome<void> RawQueue::open(int device) {
  const Error failed = {"cannot set up a queue pair for RDMA writes"};
  context_ = openDevice(device);
  if (context_ == nullptr) return Error{textOf("there is no RDMA device %d, or it cannot be opened", device)};
  pd_.reset(verbs::library().alloc_pd(context_.get()));
  cq_.reset(verbs::library().create_cq(context_.get(), static_cast<int>(slots_), nullptr, nullptr, 0));
  const auto port = verbs::queryPort(context_.get(), 1);
  if (pd_ == nullptr || cq_ == nullptr || !port.ok()) return failed;
  port_ = *port;
  const auto gids = verbs::usableGids(context_.get(), port_, config_);
  auto made = verbs::createQueuePair(pd_.get(), cq_.get(), port_, config_,
                                     {static_cast<uint32_t>(slots_), 1, kInlineBytes});
  if (!gids.ok() || !made.ok()) return failed;
  gid_ = (*gids)[0];
  queue_ = std::move(*made);
  if (!registerMemory()) return failed;
  return {};
}

RawAddress RawQueue::address() const {
  return {{queue_.qp->qp_num, port_.lid, port_.ethernet, port_.mtu, gid_.value},
          reinterpret_cast<uint64_t>(to(0)),
          mr_->rkey};
}

bool RawQueue::join(const RawAddress& remote) {
  remote_ = remote;
  request_.sg_list = &piece_;
  request_.num_sge = 1;
  request_.opcode = IBV_WR_RDMA_WRITE;
  request_.send_flags = IBV_SEND_SIGNALED;
  if (bytes_ <= queue_.inline_bytes) request_.send_flags |= IBV_SEND_INLINE;
  request_.wr.rdma.rkey = remote.key;
  piece_.length = static_cast<uint32_t>(bytes_);
  piece_.lkey = mr_->lkey;
  return verbs::readyToReceive(queue_.qp.get(), port_, remote.path, {gid_, 0, 0}).ok() &&
         verbs::readyToSend(queue_.qp.get(), port_, config_).ok();
}

int RawQueue::poll() {
  std::array<ibv_wc, kPolled> done;
  const int count = ibv_poll_cq(cq_.get(), kPolled, done.data());
  for (int i = 0; i < count; ++i) {
    if (done[static_cast<std::size_t>(i)].status != IBV_WC_SUCCESS) return -1;
  }
  return count;
}

bool RawQueue::writeMany(uint64_t messages) {
  uint64_t posted = 0;
  uint64_t slot = 0;
  Patience patience;
  for (uint64_t done = 0; done < messages;) {
    for (; posted < messages && posted - done < slots_ && write(slot); ++posted)
      slot = slot + 1 == slots_ ? 0 : slot + 1;
    const int polled = poll();
    if (polled < 0 || patience.lost(polled > 0)) return false;
    done += static_cast<uint64_t>(polled);
  }
  return true;
}

void RawQueue::fill() {
  for (uint64_t slot = 0; slot < slots_; ++slot) std::memset(from(slot), patternOf(slot), bytes_);
}

bool RawQueue::arrived() const {
  for (uint64_t slot = 0; slot < slots_; ++slot) {
    const auto expected = static_cast<std::byte>(patternOf(slot));
    if (!std::all_of(to(slot), to(slot) + bytes_, [&](std::byte byte) { return byte == expected; }))
      return false;
  }
  return true;
}

bool RawQueue::registerMemory() {
  const std::size_t all = roundUp(2 * slots_ * stride_, kPage);
  memory_ = allocatePages(all);
  if (memory_ == nullptr) return false;
  auto mr = verbs::registerMemory(pd_.get(), memory_.get(), all, verbs::kDataAccess);
  if (mr.ok()) mr_ = std::move(*mr);
  return mr.ok();
}

}  // namespace railwise::cli
