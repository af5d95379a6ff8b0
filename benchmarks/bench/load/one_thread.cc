// The load with both ends in one thread, and the choice of a load for a task.
#include <memory>
#include <optional>
#include <utility>

#include "benchmarks/bench/load/drive.h"
#include "benchmarks/bench/load/load.h"
#include "benchmarks/bench/load/raw.h"
#include "benchmarks/bench/load/two_ends.h"

namespace railwise::tools {
namespace {

class OneThread : public BenchLoad {
 public:
  explicit OneThread(BenchTask task) : task_(std::move(task)) {}

  bool start() override {
    plugin_ = loadForBench(task_, &error_);
    if (!plugin_) return false;
    origin_ = originOf(*plugin_);
    for (int i = 0; i < task_.shape.connections; ++i) {
      BenchSender& sender = ends_.senders.emplace_back(*plugin_->api, task_.shape);
      BenchReceiver& receiver = ends_.receivers.emplace_back(*plugin_->api, task_.shape);
      if (!connectEnds(sender, receiver, task_.device, &error_)) return false;
      if (!sender.registerMemory() || !receiver.registerMemory()) return failed();
      if (task_.shape.optional_completion) receiver.watch(sender);
    }
    return true;
  }

  // Idle calls move nothing.
  bool check() override {
    BenchShape shape = task_.shape;
    if (shape.pattern == BenchPattern::kIdle) shape.pattern = BenchPattern::kProxy;
    ends_.verify(true);
    const bool right = move(shape, checkedMessages(task_));
    ends_.verify(false);
    return right;
  }

  std::optional<BenchRan> run(uint64_t messages) override {
    const BenchClock clock;
    if (!move(task_.shape, messages)) return std::nullopt;
    return clock.ran();
  }

  std::optional<BenchSetUp> connectMore(int connections) override {
    return setUpConnections(*plugin_->api, task_.device, connections, &error_);
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

  bool move(const BenchShape& shape, uint64_t messages) {
    std::string why;
    return moveMessages(ends_, shape, messages / ends_.senders.size(), &why) || fail(why);
  }

  BenchTask task_;
  std::optional<LoadedPlugin> plugin_;
  BenchConnections ends_;
};

}  // namespace

std::unique_ptr<BenchLoad> BenchLoad::create(const BenchTask& task) {
  if (task.ends != BenchEnds::kOneThread)
    return makeTwoEnds(task, task.plugin.raw ? makeRawEnd : makePluginEnd);
  if (task.plugin.raw) return makeRawWrites(task);
  return std::make_unique<OneThread>(task);
}

}  // namespace railwise::tools
