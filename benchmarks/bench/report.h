// Prints what `railwise bench` has measured, as a table or as JSON: one row for each plugin and size.
#pragma once

#include <vector>

#include "benchmarks/bench/measure.h"

namespace railwise::cli {

void printBenchJson(const BenchOptions& options, const std::vector<std::vector<Costs>>& by_size);
void printBenchText(const BenchOptions& options, const std::vector<std::vector<Costs>>& by_size);

// One row of the table of patterns.
struct BenchRow {
  BenchOptions options;
  std::vector<Costs> costs;
};
// For example "ops of 2 x64, 2 rails".
std::string patternText(const BenchOptions& options);
// Sorts the rows so that the worst one is last: the worst ratio to the last plugin, or, with one plugin, the
// highest cost.
void printBenchRows(std::vector<BenchRow> rows);
void printBenchRowsJson(const std::vector<BenchRow>& rows);

}  // namespace railwise::cli
