#include "perf/timeline/timeline.h"

#include "tests/ok.h"

namespace railwise::cli {
namespace {

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Timeline makeTimeline() {
  Timeline timeline;
  timeline.samples = {{100, 0}, {110, 20'000'000}, {120, 20'000'000}, {130, 60'000'000}};
  timeline.marks = {{112, "h0/soft1 port=down"}};
  return timeline;
}

TEST(PerfTimeline, IsOneSelfContainedFile) {
  const std::string svg = drawTimeline("a run & its <faults>", makeTimeline());
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_HAS(svg, "a run &amp; its &lt;faults&gt;");
  EXPECT_LACKS(svg, "href");
}

TEST(PerfTimeline, AStepOfTheCurveIsTheRateBetweenTwoSamples) {
  const std::string svg = drawTimeline("", makeTimeline());
  // 2, 0 and 4 GB/s of 4: half the height, none, all of it.
  EXPECT_HAS(svg, "d=\"M76.0 194.0H349.3L349.3 324.0H622.7L622.7 64.0H896.0\"");
  EXPECT_HAS(svg, ">4 GB/s</text>");
}

// 1 GB/s on average, in jumps; then 3 GB/s.
TEST(PerfTimeline, AThickLineShowsTheLevels) {
  Timeline timeline;
  uint64_t bytes = 0;
  for (int i = 0; i <= 400; ++i) {
    timeline.samples.push_back({10.0 * i, bytes});
    const uint64_t level = i < 200 ? 10'000'000 : 30'000'000;
    bytes += i % 2 == 0 ? 2 * level : 0;
  }
  const std::string svg = drawTimeline("", timeline);
  EXPECT_HAS(svg, ">thick: mean of 110 ms</text>") << svg.substr(svg.size() - 300);
  const auto line = svg.find("stroke-width:2;");
  ASSERT_NE(line, std::string::npos);
  // 6 GB/s is the top: 1 GB/s is at 324 - 260 / 6.
  const std::string path = svg.substr(line, svg.find("/>", line) - line);
  const auto at = path.find("L281.0 ");
  ASSERT_NE(at, std::string::npos) << path;
  const double y = std::stod(path.substr(at + 7));
  EXPECT_NEAR(y, 324 - 260.0 / 6, 6);
  EXPECT_LACKS(drawTimeline("", makeTimeline()), "thick") << "a few samples need no means";
}

TEST(PerfTimeline, TheLongestPauseIsBetweenBytes) {
  EXPECT_EQ(longestPauseMs(makeTimeline()), 10);
  Timeline timeline;
  EXPECT_EQ(longestPauseMs(timeline), 0);
  timeline.samples = {{0, 0}, {500, 0}, {501, 8}, {502, 9}, {520, 9}, {530, 9}, {540, 12}, {900, 12}};
  EXPECT_EQ(longestPauseMs(timeline), 28);  // not the time before the first, nor behind the last
  timeline.failed = true;
  EXPECT_EQ(longestPauseMs(timeline), 360);
}

TEST(PerfTimeline, TheLevelBetweenMarks) {
  Timeline timeline;
  EXPECT_EQ(levelsText(timeline), "");
  uint64_t bytes = 0;
  for (int i = 0; i <= 40; ++i) {  // 3, 1 and 2 GB/s, after 50 ms without traffic
    if (i >= 5) bytes += i <= 20 ? 30'000'000 : i <= 30 ? 10'000'000 : 20'000'000;
    timeline.samples.push_back({10.0 * i, bytes});
  }
  timeline.samples.push_back({900, bytes});
  EXPECT_EQ(levelsText(timeline), "");
  timeline.marks = {{20, "early"}, {200, "down"}, {210, "also"}, {300, "up"}, {500, "late"}};
  EXPECT_EQ(levelsText(timeline), "3 GB/s, 1 from 200 ms on (down), 2 from 300 ms on (up)");
  // A pause of 100 ms in 700 ms counts for nothing.
  timeline = {};
  bytes = 0;
  for (int i = 0; i <= 100; ++i) {
    if (i < 50 || i >= 60) bytes += 40'000'000;
    timeline.samples.push_back({10.0 * i, bytes});
  }
  timeline.marks = {{200, "down"}};
  EXPECT_EQ(levelsText(timeline), "4 GB/s, 4 from 200 ms on (down)");
}

TEST(PerfTimeline, AMarkStandsAtItsTimeWithItsWords) {
  const std::string svg = drawTimeline("", makeTimeline());
  EXPECT_HAS(svg, "d=\"M404.0 62.0V324.0\"><title>h0/soft1 port=down</title>");
  EXPECT_HAS(svg, ">1: 12 ms  h0/soft1 port=down</text>");
}

TEST(PerfTimeline, ManyMarksAreCut) {
  Timeline timeline = makeTimeline();
  timeline.marks.assign(100, {111, "again"});
  const std::string svg = drawTimeline("", timeline);
  EXPECT_EQ(count(svg, "<title>again</title>"), 30);
  EXPECT_HAS(svg, ">and 70 more</text>");
}

TEST(PerfTimeline, NotesStandBelowTheMarks) {
  Timeline timeline = makeTimeline();
  timeline.notes = {"other processes had 90 %", "the second"};
  const std::string svg = drawTimeline("", timeline);
  EXPECT_HAS(svg, "x=\"76.0\" y=\"366.0\">1: 12 ms");
  EXPECT_HAS(svg, "x=\"76.0\" y=\"384.0\">other processes had 90 %</text>");
  EXPECT_HAS(svg, "x=\"76.0\" y=\"402.0\">the second</text>");
  EXPECT_HAS(svg, "viewBox=\"0 0 920 430\"");
}

TEST(PerfTimeline, NothingIsDrawnToo) {
  const std::string svg = drawTimeline("nothing", {});
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_LACKS(svg, "nan");
  EXPECT_LACKS(svg, "inf");
}

}  // namespace
}  // namespace railwise::cli
