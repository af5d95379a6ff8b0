
#include <sstream>
#include <string>
#include <vector>

#include "cli/demo/failing_port.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

std::vector<std::string> linesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(DemoChart, DrawsCurvesTimeAndMarks) {
  const std::vector<Curve> curves = {{"all", {4, 4, 4, 2, 2, 4}}, {"soft0", {2, 2, 2, 0, 0, 2}}};
  EXPECT_EQ(drawChart(curves, {{3, "port of soft0 down"}, {5, "port of soft0 up"}}, 6, false),
            "         4 Gb/s at the top\n"
            "all      |###  #\n"
            "         |###  #\n"
            "         |######\n"
            "         |######\n"
            "soft0    |###  #\n"
            "         +------------------------------1-------------------2---------\n"
            "          0 s       1 s       2 s       3 s       4 s       5 s       6 s\n"
            "          1: 3.0 s  port of soft0 down\n"
            "          2: 5.0 s  port of soft0 up\n");
}

TEST(DemoChart, BlocksHaveEighths) {
  const auto lines = linesOf(drawChart({{"all", {8, 1, 0.01, 0}}}, {}, 4, true));
  ASSERT_GE(lines.size(), 5U);
  EXPECT_EQ(lines[1], "all      |█");
  EXPECT_EQ(lines[4], "         |█▄▁");
}

TEST(DemoChart, FitsATerminalHoweverMuchThereIs) {
  const std::vector<double> values(1000, 3.5);
  const std::string text = drawChart({{"a long name of a device", values}}, {{99, "end"}}, 100, false);
  for (const std::string& line : linesOf(text)) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_HAS(text, "a long n |############");
}

TEST(DemoChart, NothingIsSaidInWords) {
  EXPECT_EQ(drawChart({{"all", {0, 0}}}, {}, 1, true), "  nothing was sent\n");
}

TEST(DemoChart, APauseIsBetweenTraffic) {
  EXPECT_DOUBLE_EQ(longestPauseSeconds({0, 0, 0, 5, 5, 0, 0.1, 5, 0, 5, 0, 0, 0, 0}, 0.5), 1.0);
  EXPECT_DOUBLE_EQ(longestPauseSeconds({5, 5, 5}, 0.5), 0);
  EXPECT_DOUBLE_EQ(longestPauseSeconds({0, 0}, 0.5), 0);
}

TEST(DemoChart, SeveralHaveOneScaleIfTheirTopIsGiven) {
  const auto high = linesOf(drawChart({{"all", {4}}}, {}, 1, false, 4));
  const auto low = linesOf(drawChart({{"all", {2}}}, {}, 1, false, 4));
  EXPECT_EQ(high[0], low[0]);
  EXPECT_NE(high[1].find('#'), std::string::npos);
  EXPECT_EQ(low[1].find('#'), std::string::npos);
  EXPECT_NE(low[3].find('#'), std::string::npos);
}

}  // namespace
}  // namespace railwise::cli
