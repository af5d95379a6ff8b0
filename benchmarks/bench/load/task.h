// What a worker of `railwise bench` is to measure, as its parent tells it on its command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/bench/load/traffic.h"
#include "cli/options/options.h"

namespace railwise::tools {

struct BenchPlugin {
  std::string plugin;  // as --plugin takes it; empty: our own
  int api = 0;         // 0: its newest
  bool raw = false;    // no plugin: bare RDMA writes
};

enum class BenchEnds : uint8_t { kOneThread, kTwoThreads, kTwoProcesses };

struct BenchTask {
  BenchPlugin plugin;
  BenchShape shape;
  BenchEnds ends = BenchEnds::kOneThread;
  bool ping_pong = false;  // one message at a time, to and fro; not in one thread
  int set_ups = 0;         // so many connections more, measured instead of messages; in one thread
  int device = 0;
  int rails = 1;  // devices, from `device` on, that the plugin makes one of
  bool verbose = false;
};

std::vector<std::string> wordsOf(const BenchTask& task);
// Nothing: not such words.
std::optional<BenchTask> readTask(Args words);

}  // namespace railwise::tools
