// Cost over size as a drawing (SVG): a line for each plugin, both axes logarithmic, in the style of the drawn
// machines.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/bench/measure.h"

namespace railwise::tools {

struct PlotPoint {
  double x, y;  // bytes, and ns: greater than 0
};
struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;
};

// The whole file.
std::string plotLines(const std::string& title, const std::vector<PlotLine>& lines);
// CPU time of a message over its size; the plugins of one size after those of another.
std::string plotCosts(const BenchOptions& options, const std::vector<std::vector<Costs>>& by_size);

}  // namespace railwise::tools
