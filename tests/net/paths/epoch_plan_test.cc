// Which ways a connection takes after a failure.
#include "net/paths/epoch_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "net/paths/ends.h"

namespace railwise::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct EpochPlanTest : testing::Test {
  // "a0>b0 a1>b1", or "" for none.
  std::string plan(int own, int own_native, int its, int its_native, int most = kMaxRails) {
    const EndInfo a = makeEnd("a", own);
    const EndInfo b = makeEnd("b", its);
    const PlanAnswer answer = planEpoch({a, own_native}, {b, its_native}, most, 24, memory_, now_, purpose_);
    again_ = answer.again;
    std::string text;
    if (!answer.plan) return text;
    for (const EpochPlan::Lane& lane : answer.plan->lanes)
      text += (text.empty() ? "a" : " a") + std::to_string(answer.plan->local[lane.local_rail]) + ">b" +
              std::to_string(answer.plan->remote[lane.remote_rail]);
    return text;
  }

  PathMemory memory_{Patience(60)};
  Purpose purpose_ = Purpose::kGoOn;
  Clock::time_point now_ = Clock::time_point() + seconds(1000);
  Clock::time_point again_;
};

TEST_F(EpochPlanTest, OwnRailsComeBeforeStandbys) {
  EXPECT_EQ(plan(4, 2, 4, 2), "a0>b0 a1>b1");
  EXPECT_EQ(plan(3, 1, 3, 2), "a0>b0 a0>b1");
}

TEST_F(EpochPlanTest, AStandbyServesAnEndThatHasNoRailOfItsOwn) {
  EXPECT_EQ(plan(2, 0, 2, 1), "a0>b0");
  EXPECT_EQ(plan(2, 0, 2, 0), "a0>b0");
}

TEST_F(EpochPlanTest, AReceiverWithRoomForOneKeyIsReachedByOneRail) {
  EXPECT_EQ(plan(2, 2, 3, 1, 1), "a0>b0 a1>b0");
}

// Nobody knows which end it was: one try must do.
TEST_F(EpochPlanTest, TheNextWayHasNoEndInCommonWithTheOneThatFailed) {
  memory_.failed(path(0, 0), FailureCost::kNone, now_);
  EXPECT_EQ(plan(2, 1, 2, 1), "a1>b1");
  EXPECT_EQ(plan(2, 1, 1, 1), "a1>b0");
  memory_.failed(path(1, 1), FailureCost::kNone, now_);
  EXPECT_EQ(plan(2, 1, 2, 1), "a0>b1");
}

// What a sender goes back to is proven, and may share an end with what it has left.
TEST_F(EpochPlanTest, AProvenWayIsWithoutDoubtUntilTheNextFailure) {
  memory_.failed(path(0, 0), FailureCost::kNone, now_);
  now_ += milliseconds(300);
  memory_.worked(path(0, 1), now_);
  EXPECT_EQ(plan(2, 1, 2, 1), "a0>b1");
  now_ += milliseconds(300);
  memory_.failed(path(2, 1), FailureCost::kNone, now_);
  EXPECT_EQ(plan(3, 1, 3, 1), "a1>b2");
}

// Of equally doubtful ways, one is known to carry messages.
TEST_F(EpochPlanTest, AWayThatHasCarriedMessagesComesBeforeOneThatHasNot) {
  memory_.failed(path(0, 0), FailureCost::kNone, now_);
  memory_.carried(path(1, 1), now_);
  now_ += seconds(2);
  memory_.worked(path(0, 1), now_);
  now_ += milliseconds(300);
  memory_.failed(path(0, 1), FailureCost::kNone, now_);
  EXPECT_EQ(plan(2, 1, 2, 1), "a1>b1") << "a1>b0 has as many doubts";
  const Clock::time_point began = now_;
  now_ += milliseconds(300);
  memory_.failed(path(1, 1), FailureCost::kNone, now_);
  memory_.carried(path(1, 1), began);
  EXPECT_FALSE(memory_.proven(path(1, 1))) << "it carried messages before it failed";
  EXPECT_EQ(plan(2, 1, 2, 1), "a1>b0");
}

TEST_F(EpochPlanTest, AWayThatAConnectionHasGoneBackToStays) {
  memory_.failed(path(0, 0), FailureCost::kNone, now_);
  memory_.carried(path(1, 1), now_);
  now_ += milliseconds(300);
  memory_.worked(path(0, 1), now_);
  EXPECT_EQ(plan(2, 1, 2, 1), "a0>b1");
}

TEST_F(EpochPlanTest, OfSeveralRailsThoseGoOnThatNoFailureTouched) {
  memory_.failed(path(1, 1), FailureCost::kNone, now_);
  EXPECT_EQ(plan(3, 2, 3, 2), "a0>b0");
  purpose_ = Purpose::kGoBack;
  now_ += milliseconds(1100);
  EXPECT_EQ(plan(3, 2, 3, 2), "a0>b0 a1>b1");
}

TEST_F(EpochPlanTest, AWayThatFailedWaitsUntilItIsProvenOrThereIsNoOther) {
  memory_.failed(path(0, 0), FailureCost::kNone, now_);
  now_ += seconds(30);
  EXPECT_EQ(plan(2, 1, 2, 1), "a1>b1");
  EXPECT_EQ(plan(1, 1, 1, 1), "a0>b0");
  memory_.worked(path(0, 0), now_);
  EXPECT_EQ(plan(2, 1, 2, 1), "a0>b0");
}

TEST_F(EpochPlanTest, ToGoBackAWayIsLeftAloneForAWhile) {
  purpose_ = Purpose::kGoBack;
  memory_.failed(path(0, 0), FailureCost::kNone, now_);
  EXPECT_EQ(plan(2, 1, 2, 1), "a0>b1");
  now_ += milliseconds(1100);
  EXPECT_EQ(plan(2, 1, 2, 1), "a0>b0");
}

TEST_F(EpochPlanTest, WhatFailedLongAgoIsForgotten) {
  memory_.failed(path(0, 0), FailureCost::kNone, now_);
  now_ += seconds(121);
  EXPECT_EQ(plan(2, 1, 2, 1), "a0>b0");
}

TEST_F(EpochPlanTest, EachFailureInARowCostsMoreTime) {
  Clock::duration pause = {};
  for (int i = 0; i < 10; ++i) {
    memory_.failed(path(0, 0), FailureCost::kNone, now_);
    const Clock::duration longer = memory_.freeAt(path(0, 0)) - now_;
    EXPECT_GE(longer, pause);
    pause = longer;
  }
  EXPECT_EQ(pause, seconds(60));
  memory_.worked(path(0, 0), now_);
  EXPECT_LE(memory_.freeAt(path(0, 0)), now_);
  memory_.failed(path(0, 0), FailureCost::kNone, now_);
  EXPECT_EQ(memory_.freeAt(path(0, 0)) - now_, seconds(60)) << "one that comes and goes is damped";
}

TEST_F(EpochPlanTest, TheOnlyWayIsTriedAgainSoon) {
  memory_.failed(path(0, 0), FailureCost::kNone, now_);
  EXPECT_EQ(plan(1, 1, 1, 1), "");
  EXPECT_LE(again_ - now_, milliseconds(10));
  now_ = again_;
  EXPECT_EQ(plan(1, 1, 1, 1), "a0>b0");
}

// Two ways are left: one reports each failure at once, one is a black hole, and both must pause.
TEST_F(EpochPlanTest, OfTwoDoubtfulWaysThatPauseTheOneThatFailsAtOnceIsTried) {
  memory_.failed(path(0, 0), FailureCost::kNone, now_);
  memory_.failed(path(0, 0), FailureCost::kNone, now_);
  memory_.failed(path(0, 0), FailureCost::kNone, now_);
  memory_.failed(path(0, 1), FailureCost::kTime, now_);
  now_ += milliseconds(900);
  EXPECT_LT(memory_.freeAt(path(0, 1)), memory_.freeAt(path(0, 0)));
  EXPECT_EQ(plan(1, 1, 2, 1), "a0>b0");
  now_ += milliseconds(200);
  EXPECT_EQ(plan(1, 1, 2, 1), "a0>b1") << "its pause is over";
}

TEST_F(EpochPlanTest, OfTwoDoubtfulWaysWhosePausesAreOverTheOneThatFailsAtOnceIsTried) {
  memory_.failed(path(0, 0), FailureCost::kTime, now_);
  memory_.failed(path(1, 0), FailureCost::kNone, now_);
  memory_.failed(path(1, 1), FailureCost::kNone, now_);
  memory_.failed(path(0, 1), FailureCost::kNone, now_);
  now_ += seconds(2);
  memory_.worked(path(0, 1), now_);
  now_ += milliseconds(1);
  memory_.failed(path(0, 1), FailureCost::kTime, now_);
  now_ += seconds(3);
  EXPECT_EQ(plan(2, 2, 2, 2), "a1>b0") << "a0>b0 and a0>b1 cost time, a0>b1 has fewer doubts";
  memory_.failed(path(1, 0), FailureCost::kTime, now_);
  EXPECT_EQ(plan(2, 2, 2, 2), "a1>b1");
}

// What a way costs now counts, not what it once cost.
TEST_F(EpochPlanTest, TheLastFailureOfAWayIsWhatItCosts) {
  memory_.failed(path(0, 0), FailureCost::kTime, now_);
  EXPECT_TRUE(memory_.dear(path(0, 0), now_));
  memory_.failed(path(0, 0), FailureCost::kNone, now_);
  EXPECT_FALSE(memory_.dear(path(0, 0), now_));
  memory_.failed(path(0, 0), FailureCost::kTime, now_);
  memory_.worked(path(0, 0), now_);
  EXPECT_FALSE(memory_.dear(path(0, 0), now_));
  EXPECT_FALSE(memory_.dear(path(1, 1), now_)) << "nobody knows";
}

TEST(PathMemory, TheOnlyWayIsTriedSomeTimesBeforePatienceEnds) {
  const RailPath path = {"a", "b"};
  const Clock::time_point now = Clock::time_point() + seconds(1000);
  const auto longest = [&](int timeout_s) {
    PathMemory memory{Patience(timeout_s)};
    for (int i = 0; i < 20; ++i) memory.failed(path, FailureCost::kNone, now);
    return memory.desperateAt(path) - now;
  };
  EXPECT_EQ(longest(60), seconds(1));
  EXPECT_EQ(longest(2), milliseconds(125));
}

TEST_F(EpochPlanTest, NoRailsNoPlan) {
  EXPECT_EQ(plan(0, 0, 2, 2), "");
  EXPECT_EQ(again_, Clock::time_point::max());
}

TEST(BetterPlan, HasFewerStandbysOrMoreRails) {
  const auto make = [](std::vector<uint8_t> local, std::vector<uint8_t> remote) {
    return EpochPlan{std::move(local), std::move(remote), {}};
  };
  EXPECT_TRUE(better(make({0}, {0}), make({2}, {0}), 1, 1));
  EXPECT_TRUE(better(make({0, 1}, {0, 1}), make({0}, {0}), 2, 2));
  EXPECT_FALSE(better(make({0}, {0}), make({0}, {0}), 1, 1));
  EXPECT_FALSE(better(make({2}, {2}), make({0}, {0}), 1, 1));
}

}  // namespace
}  // namespace railwise::net
