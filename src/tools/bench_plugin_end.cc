#include <utility>

#include "tools/bench_ping_pong.h"
#include "tools/bench_two_ends.h"

namespace railwise::tools {
namespace {

constexpr const char* kStuck = "nothing moves any more";

class PluginEnd : public BenchOneEnd {
 public:
  PluginEnd(BenchTask task, const BenchChannel& channel) : task_(std::move(task)), channel_(channel) {}

  bool load() override {
    plugin_ = loadForBench(task_, &error_);
    if (plugin_) origin_ = originOf(*plugin_);
    return plugin_.has_value();
  }

  bool join(Side side) override {
    const bool near = side == Side::kNear;
    const bool both = task_.ping_pong;
    return near ? connectToOther() && (!both || acceptOther()) : acceptOther() && (!both || connectToOther());
  }

  void verify(bool on) override {
    if (sender_) sender_->verify(on);
    if (receiver_) receiver_->verify(on);
  }

  bool run(uint64_t messages, std::vector<uint64_t>* round_trips_ns) override {
    if (task_.ping_pong)
      return pingPong(*sender_, *receiver_, messages, round_trips_ns) || failed() || fail(kStuck);
    return sender_ ? move(*sender_, messages) : move(*receiver_, messages);
  }

  bool close() override {
    if (sender_ && !sender_->close()) return failed();
    if (receiver_ && !receiver_->close()) return failed();
    (void)plugin_->api->finalize();
    return true;
  }

 private:
  // The other end connects meanwhile, so neither waits for good.
  bool connectToOther() {
    sender_.emplace(*plugin_->api, task_.shape);
    auto frame = channel_.get(&error_);
    if (!frame) return false;
    return become(*sender_, [&] { return sender_->connect(task_.device, frame->handle); });
  }
  bool acceptOther() {
    receiver_.emplace(*plugin_->api, task_.shape);
    BenchFrame frame;
    if (!receiver_->listen(task_.device, frame.handle)) return failed();
    if (!channel_.put(frame)) return fail("the other end has gone");
    return become(*receiver_, [&] { return receiver_->accept(); });
  }

  bool failed() {
    if (sender_ && !sender_->error().empty()) return fail(sender_->error());
    if (receiver_ && !receiver_->error().empty()) return fail(receiver_->error());
    return false;
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

  template <typename One>
  bool move(One& one, uint64_t messages) {
    const uint64_t end = one.done() + messages;
    Patience patience;
    while (one.done() < end) {
      bool moved = one.postAll(end);
      moved |= one.testAll();
      if (!moved && !one.error().empty()) return failed();
      if (patience.lost(moved)) return fail(kStuck);
    }
    return true;
  }

  BenchTask task_;
  const BenchChannel& channel_;
  std::optional<LoadedPlugin> plugin_;
  std::optional<BenchSender> sender_;
  std::optional<BenchReceiver> receiver_;
};

}  // namespace

std::unique_ptr<BenchOneEnd> makePluginEnd(const BenchTask& task, const BenchChannel& channel) {
  return std::make_unique<PluginEnd>(task, channel);
}

}  // namespace railwise::tools
