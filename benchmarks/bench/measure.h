// The measurements of `railwise bench`: each plugin in processes of its own, all of them in turn, so that
// noise meets them alike. One thread. A failure is said where it is found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/bench/callgrind.h"
#include "benchmarks/bench/options.h"
#include "perf/measuring/machine_use.h"

namespace railwise::tools {

// What one plugin's messages cost.
struct Costs {
  BenchPlugin plugin;
  std::string name;
  int api;
  std::size_t size;
  uint64_t messages;  // of all repeats
  double cpu_ns_min;
  double cpu_ns_median;
  double wall_ns_min;
  std::optional<softdev::Counters> counts;  // of all repeats
  std::optional<Instructions> instructions = {};
  std::optional<BenchRan::Latency> latency = {};
  std::optional<BenchSetUp> set_up = {};  // of one connection
  std::optional<OthersUse> others = {};   // while all of the row was measured

  double bandwidthGbps() const { return static_cast<double>(size) * 8 / wall_ns_min; }
};

// The plugins in the order of the command line.
std::optional<std::vector<Costs>> measureCosts(const BenchOptions& options);
bool addInstructions(const BenchOptions& options, std::vector<Costs>& all);
bool addLatency(const BenchOptions& options, std::vector<Costs>& all);
bool addSetUp(const BenchOptions& options, std::vector<Costs>& all);

}  // namespace railwise::tools
