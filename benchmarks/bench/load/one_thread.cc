// The load with both ends in one thread, and the choice of a load for a task.
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "benchmarks/bench/load/drive.h"
#include "benchmarks/bench/load/load.h"
#include "benchmarks/bench/load/two_ends.h"

namespace railwise::cli {
namespace {

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
