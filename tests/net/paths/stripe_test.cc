#include "net/paths/stripe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>
#include <vector>

#include "net/paths/simulated_sender.h"

namespace railwise::net {
namespace {

std::vector<LaneLoad> makeLanes(std::initializer_list<int> mbps) {
  std::vector<LaneLoad> lanes;
  for (const int speed : mbps) lanes.emplace_back(speed);
  return lanes;
}

uint64_t shareOf(const Shares& shares, int lane) {
  uint64_t bytes = 0;
  for (int i = 0; i < shares.count; ++i) {
    if (shares.share[static_cast<std::size_t>(i)].lane == lane)
      bytes += shares.share[static_cast<std::size_t>(i)].bytes;
  }
  return bytes;
}

double fraction(const Shares& shares, int lane) {
  return static_cast<double>(shareOf(shares, lane)) / static_cast<double>(kMessage);
}

// Sends messages one after another over lanes that really deliver `bytes_per_ns`, each polled when it is
// done, as a sender that always polls sees it.
void drive(std::vector<LaneLoad>& lanes, const std::vector<double>& bytes_per_ns, int messages) {
  double now = 1000;
  for (int m = 0; m < messages; ++m) {
    const Shares shares = cutShares(lanes, kMessage, static_cast<std::size_t>(m), false);
    for (LaneLoad& lane : lanes) lane.skipped();
    std::vector<std::pair<double, Share>> ends;
    for (int i = 0; i < shares.count; ++i) {
      const Share share = shares.share[static_cast<std::size_t>(i)];
      lanes[share.lane].posted(share.bytes, static_cast<uint64_t>(now));
      ends.emplace_back(now + static_cast<double>(share.bytes) / bytes_per_ns[share.lane], share);
    }
    std::sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [end, share] : ends) {
      now = end;
      lanes[share.lane].completed(share.bytes);
      for (LaneLoad& lane : lanes) lane.measure(static_cast<uint64_t>(now));
    }
  }
}

TEST(Shares, FollowTheSpeedOfTheLanes) {
  const auto lanes = makeLanes({400000, 100000});
  const Shares shares = cutShares(lanes, kMessage, 0, false);
  EXPECT_NEAR(fraction(shares, 0), 0.8, 0.001);
  EXPECT_NEAR(fraction(shares, 1), 0.2, 0.001);
}

TEST(Shares, AreEqualWhenAskedTo) {
  const auto lanes = makeLanes({400000, 100000});
  EXPECT_NEAR(fraction(cutShares(lanes, kMessage, 0, true), 1), 0.5, 0.001);
}

TEST(Shares, AddUpAndEndOnLines) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::vector<LaneLoad> lanes;
    const std::size_t count = 1 + random() % kMaxLanes;
    for (std::size_t i = 0; i < count; ++i) {
      lanes.emplace_back(static_cast<int>(1 + random() % 800000));
      if (random() % 2 == 0) lanes.back().posted(random() % (64 << 20), 1);
    }
    const uint64_t bytes = random() % (1U << (1 + random() % 30));
    const Shares shares = cutShares(lanes, bytes, random() % 32, random() % 4 == 0);
    ASSERT_GE(shares.count, 1);
    ASSERT_LE(shares.count, static_cast<int>(count));
    uint64_t sum = 0;
    uint32_t seen = 0;
    for (int i = 0; i < shares.count; ++i) {
      const Share& share = shares.share[static_cast<std::size_t>(i)];
      ASSERT_LT(share.lane, count);
      ASSERT_EQ(seen >> share.lane & 1, 0U) << "a lane twice";
      seen |= 1U << share.lane;
      if (i + 1 < shares.count) ASSERT_EQ(share.bytes % kCutAlignment, 0U);
      sum += share.bytes;
    }
    ASSERT_EQ(sum, bytes);
  }
}

TEST(Shares, ALaneThatIsStillBusyGetsLess) {
  auto lanes = makeLanes({100000, 100000});
  lanes[0].posted(8 << 20, 1);
  const Shares shares = cutShares(lanes, kMessage, 0, false);
  EXPECT_NEAR(fraction(shares, 0), 0.25, 0.001);  // both are done after 12 MiB
  lanes[0].posted(64 << 20, 1);
  EXPECT_EQ(shareOf(cutShares(lanes, kMessage, 0, false), 0), 0U);
}

TEST(Shares, SmallSegmentsAreNotWorthALane) {
  const auto lanes = makeLanes({400000, 1000});
  const Shares shares = cutShares(lanes, kStripeBytes, 0, false);
  EXPECT_EQ(shares.count, 1);
  EXPECT_EQ(shareOf(shares, 0), kStripeBytes);
}

TEST(Rates, AreLearntFromCompletions) {
  auto lanes = makeLanes({400000, 400000});
  drive(lanes, {50.0, 12.5}, 40);  // the second delivers a quarter of what it says
  EXPECT_NEAR(fraction(cutShares(lanes, kMessage, 0, false), 1), 0.2, 0.005);
}

TEST(Rates, FollowALaneThatDiesSlowlyAndRecovers) {
  auto lanes = makeLanes({100000, 100000, 100000, 100000});
  for (double speed = 12.5; speed > 0.05; speed *= 0.9) drive(lanes, {12.5, 12.5, 12.5, speed}, 4);
  EXPECT_LT(fraction(cutShares(lanes, kMessage, 0, false), 3), 0.01);
  drive(lanes, {12.5, 12.5, 12.5, 12.5}, 1000);
  EXPECT_NEAR(fraction(cutShares(lanes, kMessage, 0, false), 3), 0.25, 0.01);
}

// Completions that are all found at once say nothing about lanes, and must change nothing.
TEST(Rates, AreNotSpoiltByALatePoll) {
  auto lanes = makeLanes({300000, 100000});
  uint64_t now = 1000;
  for (int i = 0; i < 1000; ++i) {
    const Shares shares = cutShares(lanes, kMessage, static_cast<std::size_t>(i), false);
    for (int s = 0; s < shares.count; ++s) {
      const Share& share = shares.share[static_cast<std::size_t>(s)];
      lanes[share.lane].posted(share.bytes, now);
    }
    now += 5'000'000;
    for (int s = 0; s < shares.count; ++s) {
      const Share& share = shares.share[static_cast<std::size_t>(s)];
      lanes[share.lane].completed(share.bytes);
    }
    for (LaneLoad& lane : lanes) lane.measure(now);
  }
  EXPECT_NEAR(fraction(cutShares(lanes, kMessage, 0, false), 0), 0.75, 0.01);
}

TEST(Rates, LetEqualLanesCarryWhatEvenSharesCarry) {
  for (const std::size_t count : {2, 4, 8}) {
    const std::vector<double> speeds(count, 50.0 / static_cast<double>(count));
    const double even = SimulatedSender(speeds).send(500, true);
    EXPECT_GE(SimulatedSender(speeds).send(500), 0.99 * even) << count;
  }
}

TEST(Rates, LetUnequalLanesCarryTheirSum) {
  EXPECT_GE(SimulatedSender({40, 10}).send(500), 0.97 * 50);
  EXPECT_GE(SimulatedSender({12.5, 12.5, 12.5, 6.25}).send(500), 0.97 * 43.75);
}

// A lane of 12.5 bytes per ns is slow from one message on. The next 16, of which 8 are cut already, are not
// counted.
TEST(Rates, FollowASlowdownWithin16Messages) {
  for (const double slow : {6.25, 3.125, 1.25}) {
    SimulatedSender sending({12.5, 12.5, 12.5, 12.5});
    sending.send(100);
    sending.becomes(3, slow);
    sending.send(16);
    EXPECT_GE(sending.send(16), 0.9 * (37.5 + slow)) << slow;
  }
}

TEST(Rates, OutliveAPause) {
  SimulatedSender sending({12.5, 12.5, 12.5, 12.5});
  sending.send(100);
  sending.pauses(3, 200e6);  // ns
  sending.send(32);
  EXPECT_GE(sending.send(32), 0.97 * 50);
}

TEST(FastestLane, IsTheOneThatIsDoneFirst) {
  auto lanes = makeLanes({400000, 100000});
  EXPECT_EQ(fastestLane(lanes, 8, 0), 0U);
  EXPECT_EQ(fastestLane(lanes, 8, 1), 0U);
  lanes[0].posted(1 << 20, 0);
  EXPECT_EQ(fastestLane(lanes, 8, 0), 1U);
  const auto equal = makeLanes({100000, 100000, 100000});
  EXPECT_EQ(fastestLane(equal, 8, 1), 1U) << "equals take turns";
  EXPECT_EQ(fastestLane(equal, 8, 5), 2U);
}

}  // namespace
}  // namespace railwise::net
