// How a group is cut over several lanes.
#include "net/sender/segment_poster.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace railwise::net {
namespace {

class CutOverLanes : public testing::Test {
 protected:
  CutOverLanes() {
    groups_.setLanes(3);
    for (uint8_t i = 0; i < 3; ++i) {
      lanes_[i].count = 1;
      lanes_[i].queue_pairs[0] = i;
    }
  }
  // Cuts a group of messages of these sizes.
  SegmentPoster::Cut cut(const std::vector<uint32_t>& sizes, bool even) {
    group_.open(1, makeStamp(1, static_cast<int>(sizes.size()), 0));
    for (uint32_t i = 0; i < sizes.size(); ++i) {
      messages_[i].begin(1, 0, sizes[i], nullptr);
      group_.add(i, messages_[i], SendLimits(), false, false);
    }
    const SegmentPoster::Cut cut = SegmentPoster::cutOverLanes(group_, group_.bytes(), lanes_, loads_, even);
    uint64_t begin = 0;
    for (int i = 0; i < cut.segments; ++i) {
      EXPECT_EQ(segment(i).begin, begin);
      EXPECT_GE(segment(i).end, begin);
      begin = segment(i).end;
    }
    EXPECT_EQ(begin, group_.bytes()) << "each byte goes once";
    return cut;
  }
  const Segment& segment(int i) const { return group_.lane_segments[i]; }

  SendGroups groups_;
  Group& group_ = groups_.of(1);
  std::array<Message, kMaxReceives> messages_;
  std::array<Lane, 3> lanes_;
  std::array<LaneLoad, 3> loads_ = {LaneLoad(100'000), LaneLoad(400'000), LaneLoad(100'000)};
};

TEST_F(CutOverLanes, ASmallMessageGoesOverTheFastestLane) {
  EXPECT_EQ(cut({kStripeBytes - 1}, false).segments, 1);
  EXPECT_EQ(segment(0).queue_pair, 1);
  EXPECT_EQ(loads_[1].queued(), kStripeBytes - 1);
}

TEST_F(CutOverLanes, ALargeMessageIsCutByTheRatesOfTheLanes) {
  const SegmentPoster::Cut made = cut({12 << 20}, false);
  ASSERT_EQ(made.segments, 3);
  const Segment& fastest = segment(made.fastest);
  EXPECT_EQ(fastest.queue_pair, 1);
  EXPECT_NEAR(static_cast<double>(fastest.end - fastest.begin), 8 << 20, 4096);
}

TEST_F(CutOverLanes, EvenSharesDoNotAskForTheRates) {
  ASSERT_EQ(cut({3 << 20}, true).segments, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(segment(i).end - segment(i).begin, uint64_t{1} << 20);
}

// Cuts lie on cache lines of the message that is cut, not of the group.
TEST_F(CutOverLanes, AMessageBehindAnOddOneIsCutAtItsOwnCacheLines) {
  constexpr uint32_t kOdd = 1001;
  const SegmentPoster::Cut made = cut({kOdd, 3 << 20}, true);
  ASSERT_EQ(made.segments, 3);
  for (int i = 0; i < 2; ++i) EXPECT_EQ((segment(i).end - kOdd) % kCutAlignment, 0U);
}

TEST_F(CutOverLanes, TheQueuePairsOfALaneTakeTurns) {
  lanes_[1].count = 2;
  lanes_[1].queue_pairs = {1, 4};
  (void)cut({64}, false);
  EXPECT_EQ(segment(0).queue_pair, 1);
  loads_[1].completed(64);
  (void)cut({64}, false);
  EXPECT_EQ(segment(0).queue_pair, 4);
}

}  // namespace
}  // namespace railwise::net
