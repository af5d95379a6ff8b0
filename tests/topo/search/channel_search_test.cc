#include "topo/search/channel_search.h"

#include "tests/topo/search/search_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

struct SearchBench {
  SearchBench(const std::string& xml, bool inter)
      : machine(machineOf(xml)),
        paths(searchPaths(machine)),
        space(paths, inter),
        current(machine.graph->count(NodeType::kGpu), 64),
        best(machine.graph->count(NodeType::kGpu), 64) {
    current.limits = {.pattern = Pattern::kRing,
                      .max_channels = 4,
                      .bandwidth_intra = 20,
                      .bandwidth_inter = 20,
                      .type_intra = PathType::kSys,
                      .type_inter = PathType::kSys};
    best.limits.pattern = Pattern::kRing;
  }
  int run(int steps = 1 << 14) { return ChannelSearch(space, current, best).run(steps); }

  Machine machine;
  Paths paths;
  SearchSpace space;
  ChannelSet current;
  ChannelSet best;
};

TEST(ChannelSearch, StopsWithAllChannels) {
  SearchBench f(twoSwitches(), false);
  EXPECT_EQ(f.run(), ChannelSearch::kPerfect);
  EXPECT_EQ(f.best.count, 4);
  EXPECT_EQ(f.best.gpu(0, 0), 0);
  EXPECT_EQ(f.best.gpu(0, 1), 1);
}

TEST(ChannelSearch, NicsLimitTheChannels) {
  SearchBench f(twoSwitches(), true);  // two NICs of 50 GB/s behind PCIe of 48
  f.current.limits.max_channels = 32;
  f.run();
  EXPECT_EQ(f.best.count, 4);
  EXPECT_EQ(f.best.netIn(0), f.best.netOut(0));
  EXPECT_NE(f.best.netIn(0), f.best.netIn(1));
}

TEST(ChannelSearch, FindsNothingBeyondTheTypes) {
  SearchBench f(withoutNvlink(), false);
  f.current.limits.type_intra = PathType::kPhb;
  f.current.limits.bandwidth_intra = f.current.limits.bandwidth_inter = 3;
  f.run();
  EXPECT_EQ(f.best.count, 0);
  f.current.limits.type_intra = PathType::kSys;
  f.run();
  EXPECT_GT(f.best.count, 0);
}

TEST(ChannelSearch, EndsWhenItsStepsAreSpent) {
  SearchBench f(twoSwitches(), false);
  EXPECT_EQ(f.run(2), 0);
  EXPECT_EQ(f.best.count, 0);
}

TEST(ChannelSearch, GivesBackAllBandwidth) {
  SearchBench f(twoSwitches(), true);
  f.current.limits.max_channels = 32;
  f.run();
  EXPECT_EQ(f.space.remaining.ofNet(0), 50);
  EXPECT_EQ(f.space.remaining.pciBandwidth(0), 48);
}

TEST(ChannelSearch, HeadsOfNvlsAreDifferentGpus) {
  SearchBench f(twoSwitches(), false);
  f.current.limits.pattern = f.best.limits.pattern = Pattern::kNvls;
  f.current.limits.max_channels = 2;
  EXPECT_EQ(f.run(), ChannelSearch::kPerfect);
  EXPECT_EQ(f.best.gpu(0, 0), 0);
  EXPECT_EQ(f.best.gpu(1, 0), 1);
}

TEST(ChannelSearch, PlanesDoNotMix) {
  std::string xml = twoSwitches();
  for (const auto& [net, plane] : {std::pair{"mlx5_0", "0"}, {"mlx5_1", "1"}}) {
    const std::string name = std::string("name=\"") + net + "\"";
    xml.replace(xml.find(name), name.size(), name + " plane=\"" + plane + "\"");
  }
  SearchBench f(xml, true);
  f.current.limits.cross_nic = 1;
  f.current.limits.max_channels = 32;
  f.run();
  ASSERT_GT(f.best.count, 0);
  for (int c = 0; c < f.best.count; ++c) EXPECT_EQ(f.best.netIn(c), f.best.netOut(c));
}

}  // namespace
}  // namespace railwise::topo
