// What a worker of `railwise bench` has to measure. The parent passes it on the worker's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/bench/load/traffic.h"
#include "cli/options/options.h"

namespace railwise::cli {

struct BenchPlugin {
  std::string plugin;  // as in --plugin; empty: Railwise's own
  int api = 0;         // API version; 0: the newest that the plugin has
  bool raw = false;    // no plugin: bare RDMA writes
};

enum class BenchEnds : uint8_t { kOneThread, kTwoThreads, kTwoProcesses };

struct BenchTask {
  BenchPlugin plugin;
  BenchShape shape;
  BenchEnds ends = BenchEnds::kOneThread;
  // One message at a time, back and forth. Not possible in one thread.
  bool ping_pong = false;
  // How many connections to set up and measure, instead of messages. Both ends are in one thread.
  int set_ups = 0;
  int device = 0;
  // Number of devices, from `device` on, that the plugin merges into one.
  int rails = 1;
  bool verbose = false;
};

std::vector<std::string> wordsOf(const BenchTask& task);
// Null: the words do not describe a task.
std::optional<BenchTask> readTask(Args words);

}  // namespace railwise::cli
