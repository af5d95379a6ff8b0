// What `railwise bench` has measured, as a table or as JSON.
#pragma once

#include <vector>

#include "tools/bench_measure.h"

namespace railwise::tools {

void printBenchJson(const BenchOptions& options, const std::vector<Costs>& all);
void printBenchText(const BenchOptions& options, const std::vector<Costs>& all);

}  // namespace railwise::tools
