#include <utility>

#include "benchmarks/bench/load/drive.h"
#include "benchmarks/bench/load/ping_pong.h"
#include "benchmarks/bench/load/two_ends.h"

namespace railwise::cli {
namespace {

constexpr const char* kStuck = "nothing moves any more";

class PluginEnd : public BenchOneEnd {
 public:
  PluginEnd(BenchTask task, const BenchChannel& channel) : task_(std::move(task)), channel_(channel) {}

  bool load() override {
    auto loaded = loadForBench(task_);
    if (!loaded.ok()) return fail(loaded.error());
    plugin_.emplace(std::move(*loaded));
    origin_ = originOf(*plugin_);
    return true;
  }

  bool join(Side side) override {
    const bool near = side == Side::kNear;
    for (int i = 0; i < (task_.ping_pong ? 1 : task_.shape.connections); ++i) {
      if (!(near ? connectToOther() : acceptOther())) return false;
    }
    return !task_.ping_pong || (near ? acceptOther() : connectToOther());
  }

  void verify(bool on) override { ends_.verify(on); }

  bool run(uint64_t messages, std::vector<uint64_t>* round_trips_ns) override {
    if (task_.ping_pong)
      return pingPong(ends_.senders[0], ends_.receivers[0], messages, round_trips_ns) || failed() ||
             fail(kStuck);
    const auto moved =
        moveMessages(ends_, task_.shape, messages / static_cast<uint64_t>(task_.shape.connections));
    return moved.ok() || fail(moved.error());
  }

  bool close() override {
    for (BenchSender& sender : ends_.senders) {
      if (!sender.close()) return failed();
    }
    for (BenchReceiver& receiver : ends_.receivers) {
      if (!receiver.close()) return failed();
    }
    (void)plugin_->api->finalize();
    return true;
  }

 private:
  // The other end connects at the same time, so neither end waits forever.
  bool connectToOther() {
    BenchSender& sender = ends_.senders.emplace_back(*plugin_->api, task_.shape);
    auto frame = channel_.get();
    if (!frame.ok()) return fail(frame.error());
    return become(sender, [&] { return sender.connect(task_.device, frame->handle); });
  }
  bool acceptOther() {
    BenchReceiver& receiver = ends_.receivers.emplace_back(*plugin_->api, task_.shape);
    BenchFrame frame;
    if (!receiver.listen(task_.device, frame.handle)) return failed();
    if (!channel_.put(frame)) return fail("the other end has gone");
    return become(receiver, [&] { return receiver.accept(); });
  }

  bool failed() {
    const std::string why = ends_.error();
    return why.empty() ? false : fail(why);
  }

  template <typename Try>
  bool become(BenchEnd& end, Try connect) {
    const Deadline deadline = Deadline::after(Patience::kLimit);
    while (!end.connected()) {
      if (!connect()) return failed();
      if (deadline.passed()) return fail("no connection within 30 s");
    }
    return end.registerMemory() || failed();
  }

  BenchTask task_;
  const BenchChannel& channel_;
  std::optional<LoadedPlugin> plugin_;
  BenchConnections ends_;
};

}  // namespace

std::unique_ptr<BenchOneEnd> makePluginEnd(const BenchTask& task, const BenchChannel& channel) {
  return std::make_unique<PluginEnd>(task, channel);
}

}  // namespace railwise::cli
