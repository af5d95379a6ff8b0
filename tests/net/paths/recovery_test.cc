// The phases of a recovery, and which epoch comes next.
#include "net/paths/recovery.h"

#include <gtest/gtest.h>

namespace railwise::net {
namespace {

using Phase = Recovery::Phase;

TEST(Recovery, BeginsRunningInTheFirstEpoch) {
  const Recovery recovery;
  EXPECT_TRUE(recovery.running());
  EXPECT_EQ(recovery.epoch(), 1U);
  EXPECT_FALSE(recovery.lost());
  EXPECT_EQ(recovery.failedQueuePair(), kNoQueuePair);
}

TEST(Recovery, GoesThroughAllPhasesToTheNextEpoch) {
  Recovery recovery;
  recovery.lose();
  EXPECT_EQ(recovery.phase(), Phase::kLost);
  EXPECT_TRUE(recovery.lost());
  recovery.wait(recovery.nextEpoch());
  EXPECT_EQ(recovery.phase(), Phase::kWaiting);
  EXPECT_TRUE(recovery.lost());
  EXPECT_EQ(recovery.epoch(), 2U);
  recovery.connect();
  EXPECT_FALSE(recovery.lost()) << "what fails now is a new loss";
  recovery.run();
  EXPECT_TRUE(recovery.running());
  EXPECT_EQ(recovery.epoch(), 2U);
}

TEST(Recovery, FollowsThePeerToALaterEpoch) {
  Recovery recovery;
  EXPECT_FALSE(recovery.peerAsksForLater());
  recovery.peerAsksFor(4);
  EXPECT_TRUE(recovery.peerAsksForLater());
  EXPECT_EQ(recovery.nextEpoch(), 4U);
  recovery.lose();
  recovery.wait(recovery.nextEpoch());
  EXPECT_FALSE(recovery.peerAsksForLater());
  EXPECT_EQ(recovery.nextEpoch(), 5U);
}

TEST(Recovery, APeerThatAsksForAnEarlierEpochChangesNothing) {
  Recovery recovery;
  recovery.lose();
  recovery.wait(3);
  recovery.peerAsksFor(2);
  EXPECT_FALSE(recovery.peerAsksForLater());
  EXPECT_EQ(recovery.nextEpoch(), 4U);
}

TEST(Recovery, ARefusalNamesTheQueuePairAndLeadsToAnotherEpoch) {
  Recovery recovery;
  recovery.lose();
  recovery.wait(2);
  recovery.connect();
  recovery.refuse(5, FailureCost::kTime);
  EXPECT_EQ(recovery.phase(), Phase::kLost);
  EXPECT_EQ(recovery.failedQueuePair(), 5);
  recovery.wait(recovery.nextEpoch());
  EXPECT_EQ(recovery.epoch(), 3U);
  EXPECT_EQ(recovery.failedQueuePair(), 5) << "until it is reported";
  EXPECT_EQ(recovery.failureCost(), FailureCost::kTime);
  recovery.blame(kNoQueuePair, FailureCost::kNone);
  EXPECT_EQ(recovery.failedQueuePair(), kNoQueuePair);
}

TEST(Recovery, ALossForgetsWhoFailedBeforeAndWhetherThePeerTookPart) {
  Recovery recovery;
  recovery.lose();
  recovery.blame(1, FailureCost::kTime);
  recovery.setPeerTakesPart(true);
  recovery.wait(2);
  recovery.connect();
  recovery.lose();
  EXPECT_EQ(recovery.failedQueuePair(), kNoQueuePair);
  EXPECT_EQ(recovery.failureCost(), FailureCost::kNone);
  EXPECT_FALSE(recovery.peerTakesPart());
}

}  // namespace
}  // namespace railwise::net
