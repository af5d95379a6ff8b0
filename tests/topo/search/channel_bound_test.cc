#include "topo/search/channel_bound.h"

#include "tests/topo/search/search_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

struct BoundBench {
  BoundBench(const std::string& xml, bool inter)
      : machine(machineOf(xml)), paths(searchPaths(machine)), space(paths, inter), bound(space) {}

  Machine machine;
  Paths paths;
  SearchSpace space;
  ChannelBound bound;
};

TEST(ChannelBound, CountsWhatTheLinksOfAGpuCarry) {
  BoundBench f(twoSwitches(), false);  // 370.8 GB/s of NVLink
  EXPECT_EQ(f.bound.channels(Pattern::kRing, 60, 60), 6);
  EXPECT_EQ(f.bound.channels(Pattern::kRing, 370, 370), 1);
  EXPECT_EQ(f.bound.channels(Pattern::kRing, 400, 400), 0);
}

TEST(ChannelBound, CountsWhatTheNicsCarry) {
  BoundBench f(twoSwitches(), true);  // two NICs behind PCIe of 48 GB/s
  EXPECT_EQ(f.bound.channels(Pattern::kRing, 48, 48), 2);
  EXPECT_EQ(f.bound.channels(Pattern::kRing, 24, 24), 4);
  EXPECT_EQ(f.bound.channels(Pattern::kRing, 49, 49), 0);
}

// A NIC behind 48 GB/s, two GPUs behind 24 each: the paths to the GPUs have no slow link in common.
TEST(ChannelBound, ANicServesSeveralGpus) {
  const auto slow = [](const char* rank, const char* busid) {
    return pci(busid, "0x030200",
               std::string("<gpu dev=\"") + rank + "\" sm=\"90\" rank=\"" + rank + "\" gdr=\"1\"/>\n",
               "16.0 GT/s PCIe");
  };
  BoundBench f(systemOf(cpu(0, slow("0", "0000:11:00.0") + slow("1", "0000:12:00.0") +
                                   nic(0, "0000:13:00.0", "mlx5_0"))),
               true);
  EXPECT_EQ(f.bound.channels(Pattern::kCollNetDirect, 24, 24), 2);
  EXPECT_EQ(f.bound.channels(Pattern::kCollNetDirect, 24, 20), 2);
  EXPECT_EQ(f.bound.channels(Pattern::kCollNetDirect, 24, 25), 0);
}

TEST(ChannelBound, KnowsTheShortestChannel) {
  BoundBench f(twoSwitches(), false);
  EXPECT_EQ(f.bound.hops(Pattern::kRing), 2 * f.paths.get(NodeType::kGpu, 0, NodeType::kGpu, 1).hops);
  EXPECT_EQ(f.bound.hops(Pattern::kTree), f.paths.get(NodeType::kGpu, 0, NodeType::kGpu, 1).hops);
}

TEST(ChannelBound, AttemptsOfCollnetDirectAreNotLeftOut) {
  BoundBench f(withoutNvlink(), false);
  EXPECT_TRUE(f.bound.attemptsLeaveNoTrace(Pattern::kRing, f.space.remaining));
  EXPECT_FALSE(f.bound.attemptsLeaveNoTrace(Pattern::kCollNetDirect, f.space.remaining));
}

TEST(ChannelBound, NeitherWhereRoundingChangesALink) {
  BoundBench f(twoSwitches(), false);  // 18 links of 20.6 GB/s are 370.80002 in a float
  EXPECT_FALSE(f.bound.attemptsLeaveNoTrace(Pattern::kRing, f.space.remaining));
}

}  // namespace
}  // namespace railwise::topo
