// Throughput over time as blocks of text, at most 80 columns wide. Pure.
#pragma once

#include <string>
#include <vector>

namespace railwise::cli {

// One line of the chart: a value for each moment, all of them equally far apart.
struct Curve {
  std::string name;  // at most kChartNameWidth characters are shown
  std::vector<double> gbits;
};

// What happened at a moment.
struct ChartMark {
  double seconds = 0;
  std::string text;
};

inline constexpr int kChartNameWidth = 8;
inline constexpr int kChartColumns = 60;

// Draws the curves below one another, in one scale, with the time and the marks below. The first curve is
// `kTotalRows` high, the others one row. `unicode`: blocks in eighths of a row; otherwise '#' in whole rows.
// `top_gbits`: the value at the top, so that several charts have one scale; 0: the highest value.
std::string drawChart(const std::vector<Curve>& curves, const std::vector<ChartMark>& marks, double seconds,
                      bool unicode, double top_gbits = 0);

// The longest time without a value above a tenth of the median, between the first and the last value above 0.
double longestPauseSeconds(const std::vector<double>& values, double seconds_of_value);

}  // namespace railwise::cli
