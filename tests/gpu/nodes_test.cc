// Choosing nodes: held against a search over all sets.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "gpu/choose/choose.h"
#include "gpu/choose/hosts.h"

namespace railwise::gpu {
namespace {

NodeCandidate candidate(int64_t slowest, double intra, int group) {
  NodeCandidate made;
  made.score.slowest_pair_mbps = slowest;
  made.intra = intra;
  made.group = group;
  return made;
}

double bestFitness(const std::vector<NodeCandidate>& nodes, int count, int groups_available) {
  double best = -1;
  for (unsigned bits = 0; bits < 1U << nodes.size(); ++bits) {
    if (__builtin_popcount(bits) != count) continue;
    std::set<int> groups;
    double intra = 1;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if ((bits >> i & 1) == 0) continue;
      groups.insert(nodes[i].group);
      intra = std::min(intra, nodes[i].intra);
    }
    best = std::max(
        best, totalFitness(count, interFitness(static_cast<int>(groups.size()), groups_available), intra));
  }
  return best;
}

TEST(ChooseNodes, AgreesWithASearchOverAllSets) {
  std::mt19937 random(7);
  const auto below = [&](int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<NodeCandidate> nodes;
    const int size = 1 + below(9);
    const int groups = 1 + below(4);
    for (int i = 0; i < size; ++i)
      nodes.push_back(candidate(below(3) * 1000, (1 + below(4)) / 4.0, below(groups)));
    const int count = 1 + below(size);
    const auto answer = chooseNodes(nodes, count, groups + below(2));
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->nodes.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(std::set<int>(answer->nodes.begin(), answer->nodes.end()).size(), answer->nodes.size());
    std::set<int> of_answer;
    for (const int node : answer->nodes) of_answer.insert(nodes[static_cast<std::size_t>(node)].group);
    EXPECT_EQ(static_cast<int>(of_answer.size()), answer->groups);
  }
  random.seed(8);
  for (int round = 0; round < 2000; ++round) {
    std::vector<NodeCandidate> nodes;
    const int size = 1 + below(9);
    for (int i = 0; i < size; ++i) nodes.push_back(candidate(0, (1 + below(4)) / 4.0, below(3)));
    const int count = 1 + below(size);
    const auto answer = chooseNodes(nodes, count, 3);
    ASSERT_TRUE(answer);
    EXPECT_DOUBLE_EQ(answer->total, bestFitness(nodes, count, 3)) << "round " << round;
  }
}

// The group of better nodes is large enough, though not the largest.
TEST(ChooseNodes, OfEqualFitnessTheBetterSetsCount) {
  std::vector<NodeCandidate> nodes;
  for (int i = 0; i < 3; ++i) nodes.push_back(candidate(240000, 1, 0));
  for (int i = 0; i < 2; ++i) nodes.push_back(candidate(370800, 1, 1));
  EXPECT_EQ(chooseNodes(nodes, 2, 2)->nodes, (std::vector<int>{3, 4}));
  EXPECT_EQ(chooseNodes(nodes, 3, 2)->nodes, (std::vector<int>{0, 1, 2})) << "one group";
  EXPECT_EQ(chooseNodes(nodes, 4, 2)->nodes, (std::vector<int>{0, 1, 2, 3}));
}

TEST(ChooseNodes, WithoutGroupsTheBetterSetsCount) {
  const std::vector<NodeCandidate> nodes = {candidate(20000, 1, -1), candidate(370800, 1, -1),
                                            candidate(48000, 1, -1)};
  EXPECT_EQ(chooseNodes(nodes, 1, 0)->nodes, std::vector<int>{1});
  EXPECT_EQ(chooseNodes(nodes, 2, 0)->nodes, (std::vector<int>{1, 2}));
}

TEST(ChooseNodes, TooFewNodesAreNoAnswer) {
  EXPECT_FALSE(chooseNodes({candidate(1, 1, 0)}, 2, 1));
  EXPECT_FALSE(chooseNodes({}, 1, 0));
}

}  // namespace
}  // namespace railwise::gpu
