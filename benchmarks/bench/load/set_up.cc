#include "benchmarks/bench/load/set_up.h"

#include <ctime>
#include <deque>
#include <fstream>

#include "base/clock.h"
#include "benchmarks/bench/load/traffic.h"
#include "perf/measuring/page_memory.h"

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

}  // namespace railwise::cli
