// The load with both ends in one thread, and the choice of a load for a task.
#include <chrono>
#include <ctime>
#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "benchmarks/bench/load/drive.h"
#include "benchmarks/bench/load/load.h"
#include "benchmarks/bench/load/traffic.h"
#include "benchmarks/bench/load/two_ends.h"
#include "perf/measuring/measuring.h"

namespace railwise::cli {
namespace {

constexpr BenchShape kNoMessages = {.size = 0, .window = 1};

struct Connection {
  explicit Connection(NetApi& api) : sender(api, kNoMessages), receiver(api, kNoMessages) {}
  BenchSender sender;
  BenchReceiver receiver;
};

uint64_t residentBytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::string word;
  uint64_t kib = 0;
  while (rollup >> word) {
    if (word == "Pss:" && rollup >> kib) break;
  }
  return kib * 1024;
}

uint64_t processCpuNs() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// The CPU time of one regMr and deregMr of memory that has not been registered before.
Outcome<double> registerNewMemory(BenchSender& sender) {
  constexpr int kRegistrations = 1000;
  constexpr std::size_t kBytes = kPage;
  PageMemory memory = allocatePages(kRegistrations * kBytes);
  if (memory == nullptr) return Error{"no memory to register"};
  const uint64_t before = processCpuNs();
  for (int i = 0; i < kRegistrations; ++i) {
    if (!sender.registerOnce(memory.get() + static_cast<std::size_t>(i) * kBytes, kBytes))
      return Error{sender.error()};
  }
  return static_cast<double>(processCpuNs() - before) / kRegistrations;
}

// Opens `connections` connections, registers memory with the first one, and closes them; measures all of
// that.
Outcome<BenchSetUp> setUpConnections(NetApi& api, int device, int connections) {
  std::deque<Connection> all;
  const uint64_t bytes = residentBytes();
  const uint64_t cpu = processCpuNs();
  const uint64_t wall = nowNs();
  for (int i = 0; i < connections; ++i) {
    Connection& made = all.emplace_back(api);
    if (auto connected = connectEnds(made.sender, made.receiver, device); !connected.ok())
      return connected.failure();
  }
  const auto each = [&](uint64_t now, uint64_t before) {
    return static_cast<double>(static_cast<int64_t>(now - before)) / connections;
  };
  BenchSetUp result = {.cpu_ns = each(processCpuNs(), cpu),
                       .wall_ns = each(nowNs(), wall),
                       .bytes = each(residentBytes(), bytes)};
  const auto registered = registerNewMemory(all.front().sender);
  if (!registered.ok()) return registered.failure();
  result.register_cpu_ns = *registered;
  const uint64_t before_close = processCpuNs();
  for (Connection& made : all) {
    if (!made.sender.close() || !made.receiver.close())
      return Error{made.sender.error() + made.receiver.error()};
  }
  result.close_cpu_ns = each(processCpuNs(), before_close);
  return result;
}

constexpr int kSettlePauses = 4;
constexpr auto kSettlePause = std::chrono::milliseconds(25);
constexpr uint64_t kSettleCalls = 512;  // of each end, after each pause

class OneThread : public BenchLoad {
 public:
  explicit OneThread(BenchTask task) : task_(std::move(task)) {}

  bool start() override {
    auto loaded = loadForBench(task_);
    if (!loaded.ok()) return fail(loaded.error());
    plugin_.emplace(std::move(*loaded));
    origin_ = originOf(*plugin_);
    for (int i = 0; i < task_.shape.connections; ++i) {
      BenchSender& sender = ends_.senders.emplace_back(*plugin_->api, task_.shape);
      BenchReceiver& receiver = ends_.receivers.emplace_back(*plugin_->api, task_.shape);
      if (const auto connected = connectEnds(sender, receiver, task_.device); !connected.ok())
        return fail(connected.error());
      if (!sender.registerMemory() || !receiver.registerMemory()) return failed();
      if (task_.shape.optional_completion) receiver.watch(sender);
    }
    return true;
  }

  // The idle pattern moves no data, so its check uses the proxy pattern.
  bool check() override {
    const bool idle = task_.shape.pattern == BenchPattern::kIdle;
    BenchShape shape = task_.shape;
    if (idle) shape.pattern = BenchPattern::kProxy;
    ends_.verify(true);
    const bool right = move(shape, checkedMessages(task_));
    ends_.verify(false);
    return right && (!idle || settle());
  }

  std::optional<BenchRan> run(uint64_t messages) override {
    const BenchClock clock;
    if (!move(task_.shape, messages)) return std::nullopt;
    return clock.ran();
  }

  std::optional<BenchSetUp> connectMore(int connections) override {
    const auto set_up = setUpConnections(*plugin_->api, task_.device, connections);
    if (set_up.ok()) return *set_up;
    fail(set_up.error());
    return std::nullopt;
  }

  bool close() override {
    const auto closed = [](auto& ends) {
      return std::all_of(ends.begin(), ends.end(), [](auto& end) { return end.close(); });
    };
    if (!closed(ends_.senders) || !closed(ends_.receivers)) return failed();
    (void)plugin_->api->finalize();
    return true;
  }

 private:
  bool failed() { return fail(ends_.error()); }

  // Waits until no end has anything left to ask its device for. A plugin may look, by the clock, at what an
  // unsignalled work request has become; on a busy machine such a look would fall into what is measured.
  bool settle() {
    for (int pause = 0; pause < kSettlePauses; ++pause) {
      std::this_thread::sleep_for(kSettlePause);
      if (!move(task_.shape, kSettleCalls * ends_.senders.size())) return false;
    }
    return true;
  }

  bool move(const BenchShape& shape, uint64_t messages) {
    const auto moved = moveMessages(ends_, shape, messages / ends_.senders.size());
    return moved.ok() || fail(moved.error());
  }

  BenchTask task_;
  std::optional<LoadedPlugin> plugin_;
  BenchConnections ends_;
};

}  // namespace

std::unique_ptr<BenchLoad> BenchLoad::create(const BenchTask& task) {
  if (isOneSided(task.shape.pattern)) return makeOneSided(task);
  if (task.ends != BenchEnds::kOneThread)
    return makeTwoEnds(task, task.plugin.raw ? makeRawEnd : makePluginEnd);
  if (task.plugin.raw) return makeRawWrites(task);
  return std::make_unique<OneThread>(task);
}

}  // namespace railwise::cli
