#include "topo/search/candidates.h"

#include "tests/topo/search/search_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

struct CandidatesBench {
  explicit CandidatesBench(const std::string& xml, const Settings& settings = {})
      : machine(machineOf(xml, settings)),
        paths(searchPaths(machine)),
        routes(paths),
        left(routes, *machine.graph),
        candidates(paths) {}
  std::vector<int> next(int gpu, Candidates::Towards towards, Pattern pattern, int net = -1) {
    std::vector<int> gpus;
    candidates.next(gpu, towards, net, pattern, left, 0, gpus);
    return gpus;
  }

  Machine machine;
  Paths paths;
  Routes routes;
  Remaining left;
  Candidates candidates;
};

// Four GPUs on NVSwitches.
std::string fourSwitched() { return equallyNear(); }

// Four GPUs on one CPU without NVLink.
std::string fourPlain() {
  std::string inner;
  for (int i = 0; i < 4; ++i) {
    const std::string digit = std::to_string(i);
    inner +=
        gpuWith(i, "0000:1" + digit + ":00.0", "", 80) + nic(i, "0000:2" + digit + ":00.0", "mlx5_" + digit);
  }
  return systemOf(cpu(0, inner));
}

using List = std::vector<int>;

TEST(Candidates, WithNvswitchesOnlyTheNeighbours) {
  CandidatesBench f(fourSwitched());
  EXPECT_EQ(f.next(1, Candidates::Towards::kGpus, Pattern::kRing), (List{0, 2}));
  EXPECT_EQ(f.next(1, Candidates::Towards::kGpus, Pattern::kBalancedTree), (List{2, 0}));
  EXPECT_EQ(f.next(3, Candidates::Towards::kGpus, Pattern::kTree), (List{0}));
}

TEST(Candidates, OfTwoGpusThereIsOneNeighbour) {
  CandidatesBench f(twoSwitches());
  EXPECT_EQ(f.next(0, Candidates::Towards::kGpus, Pattern::kRing), (List{1}));
}

TEST(Candidates, WithoutNvswitchesInTheOrderOfTheList) {
  CandidatesBench f(fourPlain());
  EXPECT_EQ(f.next(2, Candidates::Towards::kGpus, Pattern::kRing), (List{3, 0, 1}));
}

TEST(Candidates, EqualGpusInReverseOnTheWayToALaterNet) {
  CandidatesBench f(fourPlain());
  EXPECT_EQ(f.next(2, Candidates::Towards::kLaterNet, Pattern::kRing, 0), (List{1, 0, 3}));
  EXPECT_EQ(f.next(2, Candidates::Towards::kNet, Pattern::kRing, 0), (List{3, 0, 1}));
}

TEST(Candidates, GpusWithMoreFreePcieFirst) {
  CandidatesBench f(fourPlain());
  ASSERT_TRUE(f.left.take(f.routes, f.routes.route(NodeType::kGpu, 3, NodeType::kNet, 3), 12));
  EXPECT_EQ(f.next(2, Candidates::Towards::kNet, Pattern::kRing, 0), (List{0, 1, 3}));
}

TEST(Candidates, WithoutGpusOfTheChannel) {
  CandidatesBench f(fourPlain());
  f.left.toggle(3, 0);
  EXPECT_EQ(f.next(2, Candidates::Towards::kGpus, Pattern::kRing), (List{0, 1}));
}

TEST(Candidates, NetsThatNcclPrefersFirst) {
  CandidatesBench f(fourPlain());  // GPUs 0..3 prefer NETs 0, 2, 1, 3
  EXPECT_EQ(*f.candidates.nets(-1, PathType::kPix), (List{0, 2, 1, 3}));
  EXPECT_EQ(*f.candidates.nets(1, PathType::kPix), (List{2}));
  EXPECT_EQ(*f.candidates.nets(1, PathType::kPhb), (List{2, 0, 1, 3}));
  EXPECT_EQ(*f.candidates.preferredNets(1), (List{2}));
}

TEST(Candidates, PolicyMaxLimitsTheNets) {
  CandidatesBench f(fourPlain(), {.netdevs_policy = Settings::NetDevsPolicy::kMax, .netdevs_max = 2});
  EXPECT_EQ(*f.candidates.nets(1, PathType::kSys), (List{2, 3}));
}

TEST(Candidates, NoNetWithoutNics) {
  CandidatesBench f(withoutNvlink());
  EXPECT_EQ(f.candidates.nets(0, PathType::kSys), nullptr);
  EXPECT_EQ(f.candidates.preferredNets(0), nullptr);
}

TEST(Candidates, GpusNearANet) {
  CandidatesBench f(twoSwitches());
  EXPECT_EQ(f.candidates.gpusNear(1), (List{1}));
  EXPECT_FALSE(f.candidates.isolated(1));
}

}  // namespace
}  // namespace railwise::topo
