// The measurements of `railwise bench`. Each plugin has processes of its own, and the plugins run in turn, so
// that noise affects all of them equally. One thread. A function that finds a failure reports it to the user.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/bench/callgrind.h"
#include "benchmarks/bench/options.h"
#include "perf/measuring/machine_use.h"

namespace railwise::cli {

// What the messages of one plugin cost.
struct Costs {
  BenchPlugin plugin;
  std::string name;
  int api;
  std::size_t size;
  uint64_t messages;  // in all repeats together
  double cpu_ns_min;
  double cpu_ns_median;
  double wall_ns_min;
  std::optional<BenchChild::Counts> counts;  // in all repeats together
  std::optional<Instructions> instructions = {};
  std::optional<BenchRan::Latency> latency = {};
  std::optional<BenchSetUp> set_up = {};  // cost of one connection
  std::optional<OthersUse> others = {};   // the machine's other load during the whole row

  double bandwidthGbps() const { return static_cast<double>(size) * 8 / wall_ns_min; }
};

// The costs of each plugin, in the order of the command line.
std::optional<std::vector<Costs>> measureCosts(const BenchOptions& options);
bool addInstructions(const BenchOptions& options, std::vector<Costs>& all);
bool addLatency(const BenchOptions& options, std::vector<Costs>& all);
bool addSetUp(const BenchOptions& options, std::vector<Costs>& all);

}  // namespace railwise::cli
