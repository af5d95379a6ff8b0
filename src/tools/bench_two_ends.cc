#include "tools/bench_two_ends.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "tools/bench_channel.h"
#include "tools/bench_ping_pong.h"
#include "tools/message.h"

namespace railwise::tools {
namespace {

constexpr const char* kStuck = "nothing moves any more";

// One end with its plugin: the near one sends, the far one receives, and in a ping-pong both do both.
class End {
 public:
  End(const BenchTask& task, BenchChannel& channel) : task_(task), channel_(channel) {}

  bool load() {
    plugin_ = loadForBench(task_, &error_);
    return plugin_.has_value();
  }
  const LoadedPlugin& plugin() const { return *plugin_; }

  // The other end connects meanwhile, so neither waits for good.
  bool connectToOther() {
    sender_.emplace(*plugin_->api, task_.shape);
    auto frame = channel_.get(&error_);
    if (!frame) return false;
    return until([&] { return sender_->connect(task_.device, frame->handle); },
                 [&] { return sender_->connected(); });
  }
  bool acceptOther() {
    receiver_.emplace(*plugin_->api, task_.shape);
    BenchFrame frame;
    if (!receiver_->listen(task_.device, frame.handle)) return failed();
    if (!channel_.put(frame)) return fail("the other end has gone");
    return until([&] { return receiver_->accept(); }, [&] { return receiver_->connected(); });
  }

  void verify(bool on) {
    if (sender_) sender_->verify(on);
    if (receiver_) receiver_->verify(on);
  }

  // The near end gives `round_trips_ns`, for a ping-pong.
  bool run(uint64_t messages, std::vector<uint64_t>* round_trips_ns = nullptr) {
    if (task_.ping_pong)
      return pingPong(*sender_, *receiver_, messages, round_trips_ns) || failed() || fail(kStuck);
    return sender_ ? move(*sender_, messages) : move(*receiver_, messages);
  }

  bool close() {
    if (sender_ && !sender_->close()) return failed();
    if (receiver_ && !receiver_->close()) return failed();
    (void)plugin_->api->finalize();
    return true;
  }

  const std::string& error() const { return error_; }

 private:
  bool fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }
  bool failed() {
    if (sender_ && !sender_->error().empty()) return fail(sender_->error());
    if (receiver_ && !receiver_->error().empty()) return fail(receiver_->error());
    return false;
  }

  template <typename Try, typename Done>
  bool until(Try tryIt, Done done) {
    const Deadline deadline = Deadline::after(Patience::kLimit);
    while (!done()) {
      if (!tryIt()) return failed();
      if (deadline.passed()) return fail("no connection within 30 s");
    }
    return true;
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

  const BenchTask& task_;
  BenchChannel& channel_;
  std::optional<LoadedPlugin> plugin_;
  std::optional<BenchSender> sender_;
  std::optional<BenchReceiver> receiver_;
  std::string error_;
};

// An order is a number of messages, the first one of those that are checked; 0 ends.
bool obey(End& end, BenchChannel& channel) {
  std::string gone;
  for (bool verify = true;; verify = false) {
    const auto order = channel.get(&gone);
    if (!order || order->number == 0) return true;
    end.verify(verify);
    const BenchClock clock;
    if (!end.run(order->number)) return false;
    channel.putNumber(clock.ran().cpu_ns);
  }
}

void farEnd(const BenchTask& task, BenchChannel channel) {
  End end(task, channel);
  bool right = end.load() && end.acceptOther() && (!task.ping_pong || end.connectToOther());
  if (right) std::thread([&] { right = obey(end, channel); }).join();
  if (right && end.close()) {
    channel.putNumber(0);
  } else {
    channel.putError(end.error());
  }
}

class TwoEnds : public BenchLoad {
 public:
  explicit TwoEnds(const BenchTask& task) : TwoEnds(task, BenchChannel::create()) {}

  ~TwoEnds() override {
    channel_.close();
    if (thread_.joinable()) thread_.join();
    int status = 0;
    while (process_ > 0 && waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
  }

  bool start() override {
    if (!end_.load()) return failed();
    describe(end_.plugin());
    // Behind the near one, whose start may read and write what belongs to the process.
    if (task_.ends == BenchEnds::kTwoThreads)
      thread_ = std::thread([this] { farEnd(task_, std::move(far_)); });
    return (end_.connectToOther() && (!task_.ping_pong || end_.acceptOther())) || failed();
  }

  bool check() override {
    end_.verify(true);
    const bool right = run(kCheckedMessages).has_value();
    end_.verify(false);
    return right;
  }

  std::optional<BenchRan> run(uint64_t messages) override {
    channel_.putNumber(messages);
    std::vector<uint64_t> round_trips_ns;
    if (task_.ping_pong) round_trips_ns.reserve(messages);
    const BenchClock clock;
    const bool ran = end_.run(messages, task_.ping_pong ? &round_trips_ns : nullptr);
    BenchRan result = clock.ran();
    if (!ran) {
      failed();
      return std::nullopt;
    }
    const auto far = channel_.get(&error_);
    if (!far) return std::nullopt;
    result.cpu_ns += far->number;
    if (task_.ping_pong) result.latency = latencyOf(std::move(round_trips_ns));
    return result;
  }

  bool close() override {
    channel_.putNumber(0);
    if (!end_.close()) return failed();
    return channel_.get(&error_).has_value();
  }

 private:
  TwoEnds(const BenchTask& task, std::pair<BenchChannel, BenchChannel> channels)
      : task_(task), channel_(std::move(channels.first)), far_(std::move(channels.second)) {
    if (task_.ends != BenchEnds::kTwoProcesses) return;
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      channel_.close();
      ::close(STDIN_FILENO);
      farEnd(task_, std::move(far_));
      _exit(0);
    }
    far_.close();
  }

  bool failed() { return fail(end_.error()); }

  const BenchTask task_;
  BenchChannel channel_;
  BenchChannel far_;
  End end_{task_, channel_};
  pid_t process_ = -1;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<BenchLoad> makeTwoEnds(const BenchTask& task) { return std::make_unique<TwoEnds>(task); }

}  // namespace railwise::tools
