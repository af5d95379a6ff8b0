#include "perf/algorithm/plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace railwise::cli {
namespace {

// Blocks that pass from rank to rank, over all stages.
using Traffic = std::map<std::pair<int, int>, int>;

void addTraffic(const Transfer& transfer, int rank, Traffic& sent, Traffic& received) {
  for (const ChunkStep& step : transfer.steps) {
    if (step.send) sent[{rank, transfer.to}] += transfer.width;
    if (step.receive) received[{transfer.from, rank}] += transfer.width;
  }
}

TEST(Plan, WhatOneRankSendsAnotherReceives) {
  for (const auto& choice : kCollectives) {
    for (const int ranks : {1, 2, 4, 8}) {
      if (impossibleWith(choice.value, ranks) != nullptr) continue;
      for (int root = 0; root < ranks; ++root) {
        Traffic sent, received;
        for (int rank = 0; rank < ranks; ++rank) {
          for (const Stage& stage : planOf(choice.value, rank, ranks, root)) {
            for (const Transfer& transfer : stage) addTraffic(transfer, rank, sent, received);
          }
        }
        EXPECT_EQ(sent, received) << choice.name << ", " << ranks << " ranks, root " << root;
      }
    }
  }
}

TEST(Plan, NoRankHasMorePeersThanTheBound) {
  for (const auto& choice : kCollectives) {
    for (const int ranks : {1, 2, 4, 8}) {
      if (impossibleWith(choice.value, ranks) != nullptr) continue;
      for (int rank = 0; rank < ranks; ++rank) {
        std::set<int> to, from;
        for (int root = 0; root < ranks; ++root) {
          for (const Stage& stage : planOf(choice.value, rank, ranks, root)) {
            for (const Transfer& transfer : stage) {
              to.insert(transfer.to);
              from.insert(transfer.from);
            }
          }
        }
        to.erase(-1);
        from.erase(-1);
        EXPECT_LE(static_cast<int>(std::max(to.size(), from.size())), mostPeers(choice.value, ranks))
            << choice.name;
      }
    }
  }
}

// NCCL's chain of broadcast begins at the root, and its chain of reduce ends there.
TEST(Plan, ChainsAreOpenAtTheRoot) {
  const auto only = [](Collective collective, int rank) { return planOf(collective, rank, 4, 2)[0][0]; };
  EXPECT_EQ(only(Collective::kBroadcast, 2).from, -1);
  EXPECT_EQ(only(Collective::kBroadcast, 2).to, 3);
  EXPECT_EQ(only(Collective::kBroadcast, 1).to, -1);
  EXPECT_EQ(only(Collective::kReduce, 3).from, -1);
  EXPECT_EQ(only(Collective::kReduce, 2).to, -1);
  EXPECT_EQ(only(Collective::kReduce, 2).from, 1);
}

TEST(Plan, OneOfAPairAnswers) {
  const auto first = [](int rank) { return planOf(Collective::kSignalPingPong, rank, 4, -1)[0][0]; };
  EXPECT_EQ(first(2).to, 3);
  EXPECT_EQ(first(3).from, 2);
}

TEST(Plan, AStageOfTheHypercubeDoublesWhatARankHas) {
  const CollectivePlan plan = planOf(Collective::kHypercube, 5, 8, 0);
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[2][0].to, 7);
  EXPECT_EQ(plan[2][0].width, 2);
  EXPECT_EQ(plan[2][0].steps[0].block, 4);
  EXPECT_EQ(plan[2][1].steps[0].block, 6);
}

}  // namespace
}  // namespace railwise::cli
