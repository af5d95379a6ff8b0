#include "topo/search/graph_search.h"

#include "tests/topo/search/search_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

struct GraphBench {
  GraphBench(const std::string& xml, bool inter)
      : machine(machineOf(xml)), paths(searchPaths(machine)), space(paths, inter) {}
  ChannelGraph run(const SearchTask& task, SearchBandwidth bandwidth) {
    trace = {};
    auto found = GraphSearch(space, bandwidth, task, &trace).run();
    EXPECT_OK(found);
    return std::move(*found);
  }

  Machine machine;
  Paths paths;
  SearchSpace space;
  GraphTrace trace;
};

constexpr SearchTask kRings{
    .algorithm = Algorithm::kRing, .min_channels = 1, .max_channels = 32, .given = {}};
constexpr float kNvlink = 370.8F;  // 18 links of an H100

std::vector<SearchMove> movesOf(const GraphTrace& trace) {
  std::vector<SearchMove> moves;
  for (const SearchAttempt& attempt : trace.attempts) moves.push_back(attempt.move);
  return moves;
}

TEST(GraphSearch, EndsWhenTheChannelsUseAllLinks) {
  GraphBench f(twoSwitches(), false);
  f.run(kRings, {kNvlink, 360});  // six channels of 60 GB/s
  EXPECT_EQ(f.trace.end, SearchEnd::kAllLinks);
  EXPECT_EQ(f.trace.attempts[0].found, 6);
  EXPECT_EQ(f.trace.undoubled, 6);
}

TEST(GraphSearch, BeginsWithTheSpeedThatOnePathAllows) {
  GraphBench f(twoSwitches(), true);
  f.run(kRings, {45, kNvlink});
  ASSERT_FALSE(f.trace.attempts.empty());
  EXPECT_EQ(f.trace.attempts[0].limits.bandwidth_inter, 45);
}

TEST(GraphSearch, RelaxesInNcclsOrder) {
  GraphBench f(twoSwitches(), false);
  f.run(kRings, {kNvlink, kNvlink});
  std::vector<SearchMove> moves = movesOf(f.trace);
  moves.resize(6);
  EXPECT_EQ(moves, (std::vector<SearchMove>{SearchMove::kBegin, SearchMove::kDifferentChannels,
                                            SearchMove::kCrossNic, SearchMove::kDifferentChannels,
                                            SearchMove::kLowerSpeed, SearchMove::kDifferentChannels}));
  EXPECT_EQ(f.trace.attempts[4].limits.bandwidth_intra, 50);
  EXPECT_EQ(f.trace.end, SearchEnd::kNotWorthwhile);
}

TEST(GraphSearch, ATreeOfHopperMayBecomeSimpler) {
  GraphBench f(twoSwitches(), true);
  f.run({.algorithm = Algorithm::kTree, .min_channels = 2, .max_channels = 2, .given = {}}, {48, kNvlink});
  const auto moves = movesOf(f.trace);
  ASSERT_GE(moves.size(), 3U);
  EXPECT_EQ(moves[2], SearchMove::kSimplerTree);
}

TEST(GraphSearch, FindsTheSameWhetherSomeoneAsksWhyOrNot) {
  for (const std::string& xml : {twoSwitches(), equallyNear(), flat()})
    for (const bool inter : {false, true}) {
      GraphBench asked(xml, inter);
      const ChannelGraph told = asked.run(kRings, {48, kNvlink});
      GraphBench quiet(xml, inter);
      const auto found = GraphSearch(quiet.space, {48, kNvlink}, kRings, nullptr).run();
      ASSERT_OK(found);
      EXPECT_EQ(found->bandwidth_intra, told.bandwidth_intra);
      EXPECT_EQ(found->hops, told.hops);
      ASSERT_EQ(found->channels.size(), told.channels.size());
      for (std::size_t c = 0; c < told.channels.size(); ++c)
        EXPECT_EQ(found->channels[c].ranks, told.channels[c].ranks);
    }
}

TEST(GraphSearch, TakesAGraphOfAFileAsItIs) {
  GraphBench f(twoSwitches(), false);
  ChannelGraph given{.algorithm = Algorithm::kRing, .bandwidth_intra = 7, .channels = {{-1, -1, {1, 0}}}};
  SearchTask task = kRings;
  task.given = given;
  const ChannelGraph ring = f.run(task, {kNvlink, kNvlink});
  EXPECT_EQ(ring.bandwidth_intra, 7);
  EXPECT_EQ(ring.channels.size(), 1U);
  EXPECT_EQ(f.trace.skipped, SearchSkipped::kFromFile);
}

TEST(GraphSearch, WithoutNvswitchAGraphOfAFileKeepsItsSpeeds) {
  GraphBench f(withoutNvlinks(twoSwitches()), true);
  SearchTask task = kRings;
  task.algorithm = Algorithm::kNvls;
  task.given = ChannelGraph{
      .algorithm = Algorithm::kNvls, .pattern = Pattern::kNvls, .bandwidth_intra = 7, .bandwidth_inter = 5};
  const ChannelGraph nvls = f.run(task, {48, kNvlink});
  EXPECT_EQ(f.trace.skipped, SearchSkipped::kNoNvls);
  EXPECT_EQ(nvls.bandwidth_intra, 7);
  EXPECT_EQ(nvls.bandwidth_inter, 5);
}

TEST(GraphSearch, ATreeHasAsManyChannelsAsItIsTold) {
  GraphBench f(twoSwitches(), false);
  const ChannelGraph tree = f.run(
      {.algorithm = Algorithm::kTree, .min_channels = 3, .max_channels = 3, .given = {}}, {kNvlink, kNvlink});
  EXPECT_EQ(tree.channels.size(), 3U);
}

TEST(GraphSearch, NvlsNeedsHopper) {
  GraphBench f(replaced(twoSwitches(), "sm=\"90\"", "sm=\"80\""), false);
  const ChannelGraph nvls =
      f.run({.algorithm = Algorithm::kNvls, .min_channels = 1, .max_channels = 64, .given = {}}, {240, 240});
  EXPECT_TRUE(nvls.channels.empty());
  EXPECT_EQ(f.trace.skipped, SearchSkipped::kNoNvls);
}

}  // namespace
}  // namespace railwise::topo
