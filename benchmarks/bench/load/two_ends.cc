#include "benchmarks/bench/load/two_ends.h"

#include <optional>
#include <thread>

#include "base/process.h"
#include "benchmarks/bench/load/ping_pong.h"

namespace railwise::cli {
namespace {

// Runs the orders of the near end. An order is a number of messages; 0 ends the loop. The messages of the
// first order are checked.
bool obey(BenchOneEnd& end, const BenchChannel& channel) {
  for (bool verify = true;; verify = false) {
    const auto order = channel.get();
    if (!order.ok() || order->number == 0) return true;
    end.verify(verify);
    const BenchClock clock;
    if (!end.run(order->number, nullptr)) return false;
    channel.putNumber(clock.ran().cpu_ns);
  }
}

void farEnd(const BenchTask& task, MakeBenchEnd make, BenchChannel channel) {
  const auto made = make(task, channel);
  BenchOneEnd& end = *made;
  bool right = end.load() && end.join(BenchOneEnd::Side::kFar);
  if (right) std::thread([&] { right = obey(end, channel); }).join();
  if (right && end.close()) {
    channel.putNumber(0);
  } else {
    channel.putError(end.error());
  }
}

class TwoEnds : public BenchLoad {
 public:
  TwoEnds(const BenchTask& task, MakeBenchEnd make) : TwoEnds(task, make, BenchChannel::create()) {}

  ~TwoEnds() override {
    channel_.close();
    if (thread_.joinable()) thread_.join();
    if (process_) process_->wait();
  }

  bool start() override {
    if (!end_->load()) return failed();
    origin_ = end_->origin();
    // The far end's thread starts after the near end has loaded, because loading may read and change state of
    // the whole process.
    if (task_.ends == BenchEnds::kTwoThreads)
      thread_ = std::thread([this] { farEnd(task_, make_, std::move(far_)); });
    return end_->join(BenchOneEnd::Side::kNear) || failed();
  }

  bool check() override {
    end_->verify(true);
    const bool right = run(checkedMessages(task_)).has_value();
    end_->verify(false);
    return right;
  }

  std::optional<BenchRan> run(uint64_t messages) override {
    channel_.putNumber(messages);
    std::vector<uint64_t> round_trips_ns;
    if (task_.ping_pong) round_trips_ns.reserve(messages);
    const BenchClock clock;
    const bool ran = end_->run(messages, task_.ping_pong ? &round_trips_ns : nullptr);
    BenchRan result = clock.ran();
    if (!ran) {
      failed();
      return std::nullopt;
    }
    const auto far = channel_.get();
    if (!far.ok()) {
      fail(far.error());
      return std::nullopt;
    }
    result.cpu_ns += far->number;
    if (task_.ping_pong) result.latency = latencyOf(std::move(round_trips_ns));
    return result;
  }

  bool close() override {
    channel_.putNumber(0);
    if (!end_->close()) return failed();
    const auto closed = channel_.get();
    return closed.ok() || fail(closed.error());
  }

 private:
  TwoEnds(const BenchTask& task, MakeBenchEnd make, std::pair<BenchChannel, BenchChannel> channels)
      : task_(task), make_(make), channel_(std::move(channels.first)), far_(std::move(channels.second)) {
    if (task_.ends != BenchEnds::kTwoProcesses) return;
    ProcessPlan plan;
    plan.input = kStreamNothing;
    plan.body = [this](std::string&) {
      channel_.close();
      farEnd(task_, make_, std::move(far_));
      return 0;
    };
    if (auto started = Process::start(plan); started.ok()) process_.emplace(std::move(*started));
    far_.close();
  }

  bool failed() { return fail(end_->error()); }

  const BenchTask task_;
  const MakeBenchEnd make_;
  BenchChannel channel_;
  BenchChannel far_;
  const std::unique_ptr<BenchOneEnd> end_ = make_(task_, channel_);
  std::optional<Process> process_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<BenchLoad> makeTwoEnds(const BenchTask& task, MakeBenchEnd make) {
  return std::make_unique<TwoEnds>(task, make);
}

}  // namespace railwise::cli
