// Bare RDMA writes on the same libibverbs and device as the plugins: no message can cost less. They work like
// ib_write_bw and ib_write_lat of perftest, but run together with the plugins.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "benchmarks/bench/load/traffic.h"
#include "benchmarks/bench/load/two_ends.h"
#include "cli/options/message.h"
#include "perf/measuring/measuring.h"
#include "verbs/gid.h"
#include "verbs/memory_region.h"
#include "verbs/queue_pair.h"

namespace railwise::cli {
namespace {

// What the other end must know about this end. It is sent as raw bytes, because both ends are the same
// program.
struct RawAddress {
  verbs::PathAddress path;
  uint64_t memory;
  uint32_t key;
};
static_assert(sizeof(RawAddress) <= NCCL_NET_HANDLE_MAXSIZE && std::is_trivially_copyable_v<RawAddress>);

class RawQueue {
 public:
  RawQueue(const Config& config, BenchShape shape);

  Outcome<void> open(int device);
  RawAddress address() const;
  bool join(const RawAddress& remote);

  bool write(uint64_t slot) {
    const uint64_t offset = slot * stride_;
    piece_.addr = reinterpret_cast<uint64_t>(from(0)) + offset;
    request_.wr.rdma.remote_addr = remote_.memory + offset;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(queue_.qp.get(), &request_, &bad) == 0;
  }
  // The number of completed writes; negative: a write has failed.
  int poll();
  // Posts the writes one window at a time. False: a write has failed.
  bool writeMany(uint64_t messages);

  // fill() writes data that is the same at both ends. arrived(): has all of the peer's data arrived here?
  void fill();
  bool arrived() const;

  std::byte& lastSent() const { return from(0)[bytes_ - 1]; }
  std::byte& lastArrived() const { return to(0)[bytes_ - 1]; }

 private:
  std::byte* from(uint64_t slot) const { return memory_.get() + slot * stride_; }
  std::byte* to(uint64_t slot) const { return from(slots_ + slot); }
  bool registerMemory();

  const Config& config_;
  const std::size_t bytes_;
  const std::size_t stride_;
  const uint64_t slots_;
  PageMemory memory_;
  verbs::Context context_;
  verbs::Pd pd_;
  verbs::Mr mr_;
  verbs::Cq cq_;
  verbs::Port port_;
  verbs::Gid gid_;
  verbs::QueuePair queue_;
  RawAddress remote_ = {};
  ibv_sge piece_ = {};
  ibv_send_wr request_ = {};
};

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

constexpr int kPingPongWrites = 4;  // room for completions that arrive after the answer

// The functions of libibverbs and the settings. If both ends are threads, they share them.
struct Verbs {
  const Config config = (settleDevices(), Config::load());
  const bool loaded = verbs::load(config).ok();
};
const Verbs& verbsInForce() {
  static const Verbs verbs;
  return verbs;
}

BenchOrigin rawOrigin() { return {"raw WRITE", executablePath(), 0}; }

constexpr const char* kNoVerbs = "there is no libibverbs";
constexpr const char* kWriteFailed = "an RDMA write failed";

class RawWrites : public BenchLoad {
 public:
  explicit RawWrites(const BenchTask& task) : task_(task) {}

  bool start() override {
    if (!verbs_.loaded) return fail(kNoVerbs);
    origin_ = rawOrigin();
    for (RawQueue* const queue : {&near_, &far_}) {
      if (const auto opened = queue->open(task_.device); !opened.ok()) return fail(opened.error());
    }
    return (near_.join(far_.address()) && far_.join(near_.address())) ||
           fail("the queue pairs do not connect");
  }

  bool check() override {
    near_.fill();
    return run(checkedMessages(task_)) && (far_.arrived() || fail("wrong data"));
  }

  std::optional<BenchRan> run(uint64_t messages) override {
    const BenchClock clock;
    if (near_.writeMany(messages)) return clock.ran();
    fail(kWriteFailed);
    return std::nullopt;
  }

  bool close() override { return true; }

 private:
  const BenchTask task_;
  const Verbs& verbs_ = verbsInForce();
  RawQueue near_{verbs_.config, task_.shape};
  RawQueue far_{verbs_.config, task_.shape};
};

class RawEnd : public BenchOneEnd {
 public:
  RawEnd(const BenchTask& task, const BenchChannel& channel) : task_(task), channel_(channel) {}

  bool load() override {
    origin_ = rawOrigin();
    const Verbs& verbs = verbsInForce();
    if (!verbs.loaded) return fail(kNoVerbs);
    const int window = task_.ping_pong ? kPingPongWrites : task_.shape.window;
    queue_.emplace(verbs.config, BenchShape{.size = task_.shape.size, .window = window});
    const auto opened = queue_->open(task_.device);
    return opened.ok() || fail(opened.error());
  }

  bool join(Side side) override {
    side_ = side;
    BenchFrame mine;
    const RawAddress address = queue_->address();
    std::memcpy(mine.handle, &address, sizeof address);
    if (!channel_.put(mine)) return fail("the other end has gone");
    const auto theirs = channel_.get();
    if (!theirs.ok()) return fail(theirs.error());
    RawAddress remote;
    std::memcpy(&remote, theirs->handle, sizeof remote);
    // Both ends must be ready before the first write.
    if (!queue_->join(remote)) return fail("the queue pairs do not connect");
    if (!channel_.putNumber(0)) return false;
    const auto ready = channel_.get();
    return ready.ok() || fail(ready.error());
  }

  void verify(bool on) override {
    verifying_ = on;
    if (on) queue_->fill();
  }

  bool run(uint64_t messages, std::vector<uint64_t>* round_trips_ns) override {
    if (task_.ping_pong) return pingPong(messages, round_trips_ns);
    if (side_ == Side::kNear) return queue_->writeMany(messages) || fail(kWriteFailed);
    Patience patience;
    while (verifying_ && !queue_->arrived()) {
      if (patience.lost(false)) return fail("wrong data");
    }
    return true;  // the far end has nothing to do for a write
  }

  bool close() override { return true; }

 private:
  // If a message does not arrive, it is not answered. No other check is needed.
  bool pingPong(uint64_t rounds, std::vector<uint64_t>* round_trips_ns) {
    const bool first = round_trips_ns != nullptr;
    for (uint64_t round = 0; round < rounds; ++round) {
      ++stamp_;
      const uint64_t begin = first ? nowNs() : 0;
      if (first && !send()) return false;
      if (!receive()) return false;
      if (first) round_trips_ns->push_back(nowNs() - begin);
      if (!first && !send()) return false;
    }
    return true;
  }

  bool send() {
    queue_->lastSent() = std::byte{stamp_};
    return queue_->write(0) || fail(kWriteFailed);
  }

  // When the answer arrives, the completion of the previous write has long been there. So polling it adds
  // nothing to the measured latency.
  bool receive() {
    std::atomic_ref<std::byte> last(queue_->lastArrived());
    Patience patience;
    while (last.load(std::memory_order_acquire) != std::byte{stamp_}) {
      if (patience.lost(false)) return fail("no write arrives any more");
    }
    return queue_->poll() >= 0 || fail(kWriteFailed);
  }

  const BenchTask task_;
  const BenchChannel& channel_;
  std::optional<RawQueue> queue_;
  Side side_ = Side::kNear;
  bool verifying_ = false;
  uint8_t stamp_ = 0;
};

}  // namespace

std::unique_ptr<BenchLoad> makeRawWrites(const BenchTask& task) { return std::make_unique<RawWrites>(task); }

std::unique_ptr<BenchOneEnd> makeRawEnd(const BenchTask& task, const BenchChannel& channel) {
  return std::make_unique<RawEnd>(task, channel);
}

}  // namespace railwise::cli
