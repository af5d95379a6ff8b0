// Bare RDMA writes on the same libibverbs and device as the plugins: no message can cost less. They work like
// ib_write_bw and ib_write_lat of perftest, but run together with the plugins.
#include <atomic>
#include <cstring>
#include <optional>

#include "benchmarks/bench/load/raw_queue.h"
#include "benchmarks/bench/load/two_ends.h"

namespace railwise::cli {
namespace {

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
