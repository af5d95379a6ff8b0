// What `railwise bench` has measured, as a table or as JSON: the plugins at one size after the other.
#pragma once

#include <vector>

#include "benchmarks/bench/measure.h"

namespace railwise::tools {

void printBenchJson(const BenchOptions& options, const std::vector<std::vector<Costs>>& by_size);
void printBenchText(const BenchOptions& options, const std::vector<std::vector<Costs>>& by_size);

// A line of the table of patterns.
struct BenchRow {
  BenchOptions options;
  std::vector<Costs> costs;
};
// The worst ratio to the last plugin last; with one plugin, the dearest.
void printBenchRows(std::vector<BenchRow> rows);
void printBenchRowsJson(const std::vector<BenchRow>& rows);

}  // namespace railwise::tools
