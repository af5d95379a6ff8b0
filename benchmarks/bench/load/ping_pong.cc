#include "benchmarks/bench/load/ping_pong.h"

#include <algorithm>

namespace railwise::cli {
namespace {

// While a message is awaited, sends are tested, and receives that could not be posted are posted, once per
// this number of polls. Some plugins move sends only in test.
constexpr int kReceiveTests = 16;

bool sendOne(BenchSender& sender) {
  Patience patience;
  while (!(sender.room() && sender.post())) {
    const bool moved = sender.testAll();
    if (!sender.error().empty() || patience.lost(moved)) return false;
  }
  return true;
}

bool receiveOne(BenchSender& sender, BenchReceiver& receiver, uint64_t end) {
  Patience patience;
  for (int tests = 1; receiver.posted() == receiver.done() || !receiver.test(); ++tests) {
    if (tests % kReceiveTests == 0) {
      sender.testAll();
      receiver.postAll(end);
    }
    if (!receiver.error().empty() || !sender.error().empty() || patience.lost(false)) return false;
  }
  return true;
}

}  // namespace

BenchRan::Latency latencyOf(std::vector<uint64_t> round_trips_ns) {
  std::sort(round_trips_ns.begin(), round_trips_ns.end());
  const auto oneWay = [&](std::size_t percent) {
    return static_cast<double>(round_trips_ns[(round_trips_ns.size() - 1) * percent / 100]) / 2;
  };
  return {oneWay(0), oneWay(50), oneWay(90), oneWay(99)};
}

bool pingPong(BenchSender& sender, BenchReceiver& receiver, uint64_t rounds,
              std::vector<uint64_t>* round_trips_ns) {
  const bool first = round_trips_ns != nullptr;
  const uint64_t end = receiver.done() + rounds;
  receiver.postAll(end);
  while (receiver.done() < end) {
    const uint64_t begin = first ? nowNs() : 0;
    if (first && !sendOne(sender)) return false;
    if (first) receiver.postAll(end);
    if (!receiveOne(sender, receiver, end)) return false;
    if (first) round_trips_ns->push_back(nowNs() - begin);
    if (!first && !sendOne(sender)) return false;
    if (!first) receiver.postAll(end);
    sender.testAll();
  }
  Patience patience;
  while (sender.done() < end) {
    if (const bool moved = sender.testAll(); !sender.error().empty() || patience.lost(moved)) return false;
  }
  return true;
}

}  // namespace railwise::cli
