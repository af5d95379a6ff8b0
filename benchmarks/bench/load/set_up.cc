#include "benchmarks/bench/load/set_up.h"

#include <ctime>
#include <deque>
#include <fstream>

#include "base/clock.h"
#include "benchmarks/bench/load/traffic.h"

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

}  // namespace

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
  const BenchSetUp result = {each(processCpuNs(), cpu), each(nowNs(), wall), each(residentBytes(), bytes)};
  for (Connection& made : all) {
    if (!made.sender.close() || !made.receiver.close())
      return Error{made.sender.error() + made.receiver.error()};
  }
  return result;
}

}  // namespace railwise::cli
