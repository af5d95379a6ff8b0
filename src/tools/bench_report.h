// What `railwise bench` has measured, as a table or as JSON.
#pragma once

#include <optional>
#include <vector>

#include "tools/bench_callgrind.h"
#include "tools/bench_options.h"

namespace railwise::tools {

// What one plugin's messages cost.
struct Costs {
  const BenchChild* child;
  double cpu_ns_min;
  double cpu_ns_median;
  double wall_ns_min;
  std::optional<softdev::Counters> counts;  // of all repeats
  uint64_t messages;                        // of all repeats
  std::optional<Instructions> instructions = {};
};

void printBenchJson(const BenchOptions& options, const std::vector<Costs>& all);
void printBenchText(const BenchOptions& options, const std::vector<Costs>& all);

}  // namespace railwise::tools
