// NCCL's cost model on graphs by hand. tests/nccl/tuning_test.py holds it against the table that NCCL logs.
// Besides, 100,000 random communicators were held against NCCL's own src/graph/tuning.cc of 2.29.7 and
// of 2.30.7 (constants, NVLS, times of 11 sizes, choices): all were equal to the last bit.
#include "topo/tuning/cost_model.h"

#include <gtest/gtest.h>

namespace railwise::topo::tuning {
namespace {

// `channels` equal channels of rings and trees, over NVLink inside and PXB to the NICs.
CommunicatorGraphs makeGraphs(std::size_t channels, float bandwidth, std::size_t nvls_channels = 0) {
  CommunicatorGraphs graphs;
  for (ChannelGraph& graph : graphs.graphs) {
    graph.bandwidth_intra = graph.bandwidth_inter = bandwidth;
    graph.type_intra = PathType::kNvl;
    graph.type_inter = PathType::kPxb;
    graph.same_channels = true;
    graph.channels.resize(channels);
  }
  graphs.graphs[static_cast<std::size_t>(topo::Algorithm::kTree)].pattern = Pattern::kBalancedTree;
  ChannelGraph& nvls = graphs.graphs[static_cast<std::size_t>(topo::Algorithm::kNvls)];
  nvls.pattern = Pattern::kNvls;
  nvls.channels.resize(nvls_channels);
  return graphs;
}

// Hopper and Intel.
Communicator makeHopper(int nodes, int ranks_per_node) {
  Communicator its;
  its.nodes = nodes;
  its.ranks_per_node = ranks_per_node;
  its.min_capability = its.max_capability = 90;
  its.cpu_arch = CpuArch::kX86;
  its.cpu_vendor = CpuVendor::kIntel;
  return its;
}

TEST(CostModel, ARingOnOneNode) {
  const CommunicatorGraphs graphs = makeGraphs(16, 20);
  const CostModel model(makeHopper(1, 8), graphs);
  const Cost simple = model.cost(Collective::kAllReduce, Algorithm::kRing, Protocol::kSimple);
  EXPECT_NEAR(simple.bandwidth, 16 * 20 * 8 / 14.0, 1e-3);
  EXPECT_NEAR(simple.latency_us, 8.4 + 14 * 3.4, 1e-3);
  const Cost ll = model.cost(Collective::kAllReduce, Algorithm::kRing, Protocol::kLl);
  EXPECT_NEAR(ll.bandwidth, 141 * 8 / 14.0, 1e-3);
  EXPECT_EQ(ll.bound, Bound::kProtocol);
  EXPECT_NEAR(model.cost(Collective::kAllGather, Algorithm::kRing, Protocol::kLl128).bandwidth,
              320 * .92 * 8 / 7, 1e-3);
  EXPECT_NEAR(model.cost(Collective::kBroadcast, Algorithm::kRing, Protocol::kSimple).latency_us, 8.4 + 3.4,
              1e-3);
}

TEST(CostModel, ATreeOverTheNetwork) {
  const CommunicatorGraphs graphs = makeGraphs(8, 48);
  const CostModel model(makeHopper(4, 8), graphs);
  const Cost simple = model.cost(Collective::kAllReduce, Algorithm::kTree, Protocol::kSimple);
  EXPECT_NEAR(simple.bandwidth, 8 * 36.0 / 2, 1e-3);
  EXPECT_EQ(simple.bound, Bound::kChannel);
  EXPECT_NEAR(simple.latency_us, 8.4 + 2 * (7 * 4.0 + 2 * 14.0), 1e-3);
  EXPECT_NEAR(model.cost(Collective::kAllReduce, Algorithm::kRing, Protocol::kSimple).latency_us,
              8.4 + (62 - 6) * 3.4 + 6 * 14, 1e-3);
}

TEST(CostModel, NvlsIsForOneNodeAndItsTreeForSeveral) {
  CommunicatorGraphs graphs = makeGraphs(16, 20, 8);
  graphs.graphs[static_cast<std::size_t>(topo::Algorithm::kNvls)].bandwidth_inter = 100;
  const CostModel one(makeHopper(1, 8), graphs), two(makeHopper(2, 8), graphs);
  EXPECT_NEAR(one.cost(Collective::kAllReduce, Algorithm::kNvls, Protocol::kSimple).bandwidth,
              8 * 20 * 0.85 * 7 / 8 * 2 * 8 / 14, 1e-3);
  EXPECT_EQ(one.cost(Collective::kAllReduce, Algorithm::kNvlsTree, Protocol::kSimple).bandwidth, 0);
  EXPECT_EQ(two.cost(Collective::kAllReduce, Algorithm::kNvls, Protocol::kSimple).bandwidth, 0);
  EXPECT_GT(two.cost(Collective::kAllReduce, Algorithm::kNvlsTree, Protocol::kSimple).bandwidth, 0);
  Communicator without = makeHopper(1, 8);
  without.nvls = false;
  EXPECT_EQ(
      CostModel(without, graphs).cost(Collective::kAllReduce, Algorithm::kNvls, Protocol::kSimple).bandwidth,
      0);
}

TEST(CostModel, GathersGoOverNvlsUpToItsHeads) {
  const CommunicatorGraphs graphs = makeGraphs(4, 20, 16);
  for (const int ranks : {32, 33}) {
    const CostModel model(makeHopper(1, ranks), graphs);
    for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
      EXPECT_EQ(model.timeUs(collective, Algorithm::kNvls, Protocol::kSimple, 1 << 30).has_value(),
                ranks == 32);
      EXPECT_EQ(model.fastest(collective)->algorithm == Algorithm::kNvls, ranks == 32);
      EXPECT_GT(model.cost(collective, Algorithm::kNvls, Protocol::kSimple).bandwidth, 0)
          << "in NCCL's table";
    }
    EXPECT_TRUE(model.timeUs(Collective::kAllReduce, Algorithm::kNvls, Protocol::kSimple, 1 << 30)) << ranks;
  }
}

TEST(CostModel, PatIsForOneRankOnANode) {
  const CommunicatorGraphs graphs = makeGraphs(2, 20);
  EXPECT_GT(CostModel(makeHopper(4, 1), graphs)
                .cost(Collective::kAllGather, Algorithm::kPat, Protocol::kSimple)
                .bandwidth,
            0);
  EXPECT_EQ(CostModel(makeHopper(4, 2), graphs)
                .cost(Collective::kAllGather, Algorithm::kPat, Protocol::kSimple)
                .bandwidth,
            0);
  EXPECT_EQ(CostModel(makeHopper(4, 1), graphs)
                .cost(Collective::kAllReduce, Algorithm::kPat, Protocol::kSimple)
                .bandwidth,
            0);
}

// The network is slower than the links of a GPU, so that it shows which bandwidth the model takes.
CommunicatorGraphs makeSlowNetwork() {
  CommunicatorGraphs graphs = makeGraphs(8, 48, 8);
  for (ChannelGraph& graph : graphs.graphs) {
    graph.bandwidth_inter = 20;
    graph.latency_inter = 1;
  }
  return graphs;
}

Communicator makeBlackwell(NcclVersion nccl, int nodes, int ranks_per_node) {
  Communicator its = makeHopper(nodes, ranks_per_node);
  its.min_capability = its.max_capability = 100;
  its.nccl = nccl;
  return its;
}

TEST(CostModel, From231OnBlackwellsNetworkCountsOnTwoNodes) {
  const CommunicatorGraphs graphs = makeSlowNetwork();
  const auto bandwidth = [&](const Communicator& its, Algorithm algorithm) {
    return CostModel(its, graphs).cost(Collective::kAllReduce, algorithm, Protocol::kSimple).bandwidth;
  };
  const float ring = 16 / 30.0F;  // of the bus, for 16 ranks
  EXPECT_NEAR(bandwidth(makeBlackwell(NcclVersion::k2_30, 2, 8), Algorithm::kRing), 8 * 48 * ring, 1e-3);
  EXPECT_NEAR(bandwidth(makeBlackwell(NcclVersion::k2_31, 2, 8), Algorithm::kRing), 8 * 20 * ring, 1e-3);
  EXPECT_NEAR(bandwidth(makeBlackwell(NcclVersion::k2_30, 2, 8), Algorithm::kTree), 8 * 42.8 / 2, 1e-3);
  EXPECT_NEAR(bandwidth(makeBlackwell(NcclVersion::k2_31, 2, 8), Algorithm::kTree), 8 * 20 * .92 / 2, 1e-3);
  EXPECT_NEAR(bandwidth(makeHopper(2, 8), Algorithm::kRing), 8 * 48 * ring, 1e-3) << "sm 90 is as before";
}

TEST(CostModel, From231GathersInsideABlackwellNodeHaveThePlateauOfARing) {
  CommunicatorGraphs graphs = makeGraphs(16, 40);
  const std::size_t bytes = std::size_t{64} * 32 * 8;  // for 32 channels and 8 ranks
  const auto latency = [&](const Communicator& its, Collective collective, std::size_t size) {
    const CostModel model(its, graphs);
    const float bandwidth = model.cost(collective, Algorithm::kRing, Protocol::kSimple).bandwidth;
    return *model.timeUs(collective, Algorithm::kRing, Protocol::kSimple, size) -
           static_cast<float>(size) / (1000 * bandwidth);
  };
  const float plain = 8.4F + 7 * 3.4F;
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
    EXPECT_NEAR(latency(makeBlackwell(NcclVersion::k2_31, 1, 8), collective, bytes), 1.4 * plain, 1e-2);
    EXPECT_NEAR(latency(makeBlackwell(NcclVersion::k2_31, 1, 8), collective, bytes - 1), plain, 1e-2);
    EXPECT_NEAR(latency(makeBlackwell(NcclVersion::k2_30, 1, 8), collective, bytes), plain, 1e-2);
  }
  EXPECT_NEAR(latency(makeBlackwell(NcclVersion::k2_31, 1, 8), Collective::kAllReduce, bytes), 8.4 + 14 * 3.4,
              1e-2);
  graphs.graphs[static_cast<std::size_t>(topo::Algorithm::kRing)].type_intra = PathType::kPhb;
  EXPECT_NEAR(latency(makeBlackwell(NcclVersion::k2_31, 1, 8), Collective::kAllGather, bytes), 8.4 + 7 * 5.7,
              1e-2)
      << "several NVLink domains";
}

TEST(CostModel, From231NvlsTreeIsCorrectedOnArmTraysWithFastNics) {
  const CommunicatorGraphs graphs = makeSlowNetwork();
  const auto time = [&](Communicator its, float nic, std::size_t bytes) {
    its.cpu_arch = CpuArch::kArm;
    its.min_net_bandwidth = nic;
    return *CostModel(its, graphs)
                .timeUs(Collective::kAllReduce, Algorithm::kNvlsTree, Protocol::kSimple, bytes);
  };
  const std::size_t megabyte = std::size_t{1} << 20;
  const float plain = time(makeBlackwell(NcclVersion::k2_30, 2, 4), 96, megabyte);
  EXPECT_GT(time(makeBlackwell(NcclVersion::k2_31, 2, 4), 96, megabyte), plain);
  EXPECT_EQ(time(makeBlackwell(NcclVersion::k2_31, 2, 4), 95, megabyte), plain);
  EXPECT_NE(time(makeBlackwell(NcclVersion::k2_31, 2, 8), 96, megabyte),
            time(makeBlackwell(NcclVersion::k2_31, 2, 4), 96, megabyte));
  // From 512 MiB on only between more than two nodes.
  const std::size_t large = std::size_t{64} << 23;
  EXPECT_EQ(time(makeBlackwell(NcclVersion::k2_31, 2, 4), 96, large),
            time(makeBlackwell(NcclVersion::k2_30, 2, 4), 96, large));
  EXPECT_GT(time(makeBlackwell(NcclVersion::k2_31, 4, 4), 96, large),
            time(makeBlackwell(NcclVersion::k2_30, 4, 4), 96, large));
}

TEST(CostModel, From231PatHasTheLowerBandwidthAndOneLatencyOfTheNic) {
  const CommunicatorGraphs graphs = makeSlowNetwork();
  const auto pat = [&](NcclVersion nccl, int nodes) {
    Communicator its = makeHopper(nodes, 1);
    its.nccl = nccl;
    return CostModel(its, graphs).cost(Collective::kAllGather, Algorithm::kPat, Protocol::kSimple);
  };
  EXPECT_NEAR(pat(NcclVersion::k2_30, 2).bandwidth, 8 * 48 * .75, 1e-3);
  EXPECT_NEAR(pat(NcclVersion::k2_31, 2).bandwidth, 8 * 20 * .75, 1e-3);
  EXPECT_NEAR(pat(NcclVersion::k2_30, 4).latency_us, 8 + 2 * (14 + 2) / 3.5 + 4 * 2.8, 1e-3);
  EXPECT_NEAR(pat(NcclVersion::k2_31, 4).latency_us, 8 + 2 * (14 + 1) / 3.5 + 4 * 2.8, 1e-3);
}

TEST(CostModel, EveryReleaseFrom2297OnHasItsOwnModel) {
  EXPECT_EQ(modelRelease(NcclVersion::k2_31), NcclVersion::k2_31);
  EXPECT_EQ(modelRelease(NcclVersion::k2_30), NcclVersion::k2_30);
  EXPECT_EQ(ncclVersionName(modelRelease(NcclVersion::k2_28)), "2.29.7");
}

TEST(CostModel, Ll128IsOnlyWhereItIsSafe) {
  const auto bandwidth = [](const Communicator& its, PathType inter) {
    CommunicatorGraphs graphs = makeGraphs(2, 20);
    for (ChannelGraph& graph : graphs.graphs) graph.type_inter = inter;
    return CostModel(its, graphs).cost(Collective::kAllReduce, Algorithm::kRing, Protocol::kLl128).bandwidth;
  };
  Communicator ampere = makeHopper(2, 8);
  ampere.min_capability = ampere.max_capability = 80;
  EXPECT_GT(bandwidth(ampere, PathType::kPxb), 0);
  EXPECT_EQ(bandwidth(ampere, PathType::kPxn), 0);
  EXPECT_GT(bandwidth(makeHopper(2, 8), PathType::kPxn), 0);
  EXPECT_EQ(bandwidth(makeHopper(2, 8), PathType::kPhb), 0);
  Communicator mixed = makeHopper(2, 8);
  mixed.max_capability = 100;
  EXPECT_GT(bandwidth(mixed, PathType::kPxb), 0);
  mixed.nccl = NcclVersion::k2_28;
  EXPECT_EQ(bandwidth(mixed, PathType::kPxb), 0);
}

TEST(CostModel, SmallMessagesTakeLlAndLargeOnesSimple) {
  const CommunicatorGraphs graphs = makeGraphs(16, 20);
  const CostModel model(makeHopper(1, 8), graphs);
  EXPECT_EQ(model.choose(Collective::kAllReduce, 1024)->protocol, Protocol::kLl);
  const auto large = model.choose(Collective::kAllReduce, std::size_t{1} << 33);
  EXPECT_EQ(large->protocol, Protocol::kSimple);
  EXPECT_EQ(large->algorithm, Algorithm::kRing);
  EXPECT_EQ(model.fastest(Collective::kAllReduce)->algorithm, Algorithm::kRing);
}

TEST(CostModel, AMessageOfNothingIsTheLatency) {
  const CommunicatorGraphs graphs = makeGraphs(16, 20);
  const CostModel model(makeHopper(1, 8), graphs);
  EXPECT_NEAR(*model.timeUs(Collective::kAllReduce, Algorithm::kRing, Protocol::kLl, 0), 6.6 + 14 * 0.6,
              1e-3);
  EXPECT_EQ(model.timeUs(Collective::kBroadcast, Algorithm::kTree, Protocol::kLl, 0), std::nullopt);
}

TEST(CostModel, OneRankHasNoChoice) {
  const CommunicatorGraphs graphs = makeGraphs(16, 20);
  EXPECT_EQ(CostModel(makeHopper(1, 1), graphs).choose(Collective::kAllReduce, 8), std::nullopt);
}

TEST(CostModel, ChannelsOfKernels) {
  EXPECT_EQ(CostModel(makeHopper(1, 8), makeGraphs(16, 20)).channels(), 32);
  EXPECT_EQ(CostModel(makeHopper(2, 2), makeGraphs(4, 48)).channels(), 16)
      << "four for one, on Hopper and NVLink";
  EXPECT_EQ(CostModel(makeHopper(2, 8), makeGraphs(40, 20)).channels(), 64);
}

TEST(CostModel, BusBandwidthIsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(busFactor(Collective::kAllReduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(busFactor(Collective::kReduceScatter, 8), 0.875);
  EXPECT_DOUBLE_EQ(busFactor(Collective::kBroadcast, 8), 1);
}

}  // namespace
}  // namespace railwise::topo::tuning
