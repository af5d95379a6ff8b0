#include "cli/demo/chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/options/message.h"

namespace railwise::cli {
namespace {

constexpr int kTotalRows = 4;
constexpr int kMaxMarks = 6;

// The mean of the values that fall into each column.
std::vector<double> columnsOf(const std::vector<double>& values) {
  const auto columns = std::min<std::size_t>(values.size(), kChartColumns);
  std::vector<double> means;
  for (std::size_t i = 0; i < columns; ++i) {
    const std::size_t begin = i * values.size() / columns;
    const std::size_t end = (i + 1) * values.size() / columns;
    double sum = 0;
    for (std::size_t at = begin; at < end; ++at) sum += values[at];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  return means;
}

// What a row shows of a value that is `height` rows high; row 0 is the lowest.
const char* cell(double height, int row, bool unicode) {
  static constexpr std::array<const char*, 9> kEighths = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double part = std::clamp(height - row, 0.0, 1.0);
  if (!unicode) return part >= 0.5 ? "#" : row == 0 && height > 0.05 ? "." : " ";
  auto eighths = static_cast<std::size_t>(std::lround(part * 8));
  if (row == 0 && height > 0 && eighths == 0) eighths = 1;  // little is not nothing
  return kEighths.at(eighths);
}

std::string rowsOf(const Curve& curve, int rows, double top, bool unicode) {
  const std::vector<double> values = columnsOf(curve.gbits);
  std::string text;
  for (int row = rows - 1; row >= 0; --row) {
    const bool labelled = row == rows - 1;
    text += textOf("%-*.*s", kChartNameWidth, kChartNameWidth, labelled ? curve.name.c_str() : "") + " |";
    for (const double value : values) text += cell(value / top * rows, row, unicode);
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

std::string axis(double seconds, const std::vector<ChartMark>& marks) {
  std::string line(kChartColumns, '-');
  std::string times(kChartColumns + 6, ' ');
  const auto columnOf = [&](double at) {
    return std::clamp(static_cast<int>(at / seconds * kChartColumns), 0, kChartColumns - 1);
  };
  const int steps = std::max(1, static_cast<int>(seconds / 6 + 0.5));
  for (int at = 0; at <= static_cast<int>(seconds); at += steps) {
    const std::string label = std::to_string(at) + " s";
    const int column = at == 0 ? 0 : std::min(static_cast<int>(at / seconds * kChartColumns), kChartColumns);
    times.replace(static_cast<std::size_t>(column), label.size(), label);
  }
  for (std::size_t i = 0; i < marks.size() && i < kMaxMarks; ++i)
    line[static_cast<std::size_t>(columnOf(marks[i].seconds))] = static_cast<char>('1' + i);
  const std::string margin(kChartNameWidth + 1, ' ');
  times.erase(times.find_last_not_of(' ') + 1);
  std::string text = margin + "+" + line + "\n" + margin + " " + times + "\n";
  for (std::size_t i = 0; i < marks.size() && i < kMaxMarks; ++i)
    text += margin + textOf(" %zu: %.1f s  %s\n", i + 1, marks[i].seconds, marks[i].text.c_str());
  return text;
}

}  // namespace

std::string drawChart(const std::vector<Curve>& curves, const std::vector<ChartMark>& marks, double seconds,
                      bool unicode, double top_gbits) {
  double top = 0;
  for (const Curve& curve : curves) {
    for (const double value : columnsOf(curve.gbits)) top = std::max(top, value);
  }
  if (top <= 0 || seconds <= 0) return "  nothing was sent\n";
  if (top_gbits > 0) top = top_gbits;
  std::string text = textOf("%*s %.2g Gb/s at the top\n", kChartNameWidth, "", top);
  for (std::size_t i = 0; i < curves.size(); ++i)
    text += rowsOf(curves[i], i == 0 ? kTotalRows : 1, top, unicode);
  return text + axis(seconds, marks);
}

double longestPauseSeconds(const std::vector<double>& values, double seconds_of_value) {
  std::vector<double> sorted;
  for (const double value : values) {
    if (value > 0) sorted.push_back(value);
  }
  if (sorted.empty()) return 0;
  std::sort(sorted.begin(), sorted.end());
  const double little = sorted[sorted.size() / 2] / 10;
  std::size_t first = 0;
  while (values[first] <= 0) ++first;
  std::size_t end = values.size();
  while (values[end - 1] <= 0) --end;
  int longest = 0;
  int length = 0;
  for (std::size_t i = first; i < end; ++i) {
    length = values[i] <= little ? length + 1 : 0;
    longest = std::max(longest, length);
  }
  return longest * seconds_of_value;
}

}  // namespace railwise::cli
