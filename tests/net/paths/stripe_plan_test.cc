// Messages that are cut by a plan: each byte goes once, and the rates of the lanes are followed as if each
// message were cut by them.
#include "net/paths/stripe_plan.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "net/paths/simulated_sender.h"

namespace railwise::net {
namespace {

constexpr uint64_t kLargestPart = (4 << 20) - 1;

// A plan that is in force, over lanes with one queue pair each.
class Planned {
 public:
  explicit Planned(const std::vector<int>& mbps, bool even = false, uint64_t largest_part = kLargestPart) {
    for (const int speed : mbps) loads.emplace_back(speed);
    std::vector<Lane> lanes(mbps.size());
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = {0, 1, {static_cast<uint8_t>(i)}};
    plan.begin(loads);
    plan.make(lanes, even, largest_part);
  }
  const StripePlan::Row& row(uint64_t number, uint64_t bytes) {
    const StripePlan::Row* row = plan.take(number, bytes, loads);
    for (int message = 0; row == nullptr && message < 100; ++message) {
      (void)plan.noteMeasured(loads);
      row = plan.take(number, bytes, loads);
    }
    EXPECT_NE(row, nullptr);
    return *row;
  }
  // What each lane carries of `messages` of this size.
  std::array<uint64_t, StripePlan::kMostParts> carried(uint32_t bytes, uint64_t messages) {
    std::array<uint64_t, StripePlan::kMostParts> sums = {};
    for (uint64_t number = 1; number <= messages; ++number) {
      const StripePlan::Row& cut = row(number, bytes);
      uint32_t begin = 0;
      for (uint32_t part = 0; part < cut.parts; begin = cut.endOf(part++, bytes))
        sums[cut.lane[part]] += cut.endOf(part, bytes) - begin;
    }
    return sums;
  }

  std::vector<LaneLoad> loads;
  StripePlan plan;
};

TEST(StripePlan, SendsEachByteOnceInPartsThatAnImmediateCounts) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<int> mbps(2 + random() % 7);
    for (int& speed : mbps) speed = static_cast<int>(random() % 3 == 0 ? 1 + random() % 400'000 : 400'000);
    // Ports that take small work requests only, too.
    const uint64_t largest_part = random() % 2 == 0 ? kLargestPart : kStripeBytes << random() % 6;
    Planned planned(mbps, random() % 4 == 0, largest_part);
    const uint64_t largest = planned.plan.largest();
    ASSERT_GE(largest, largest_part - kCutAlignment);
    for (int message = 0; message < 100; ++message) {
      const uint64_t most = std::max(largest, kMinSegmentBytes + 1) >> random() % 6;
      const uint64_t bytes =
          random() % 8 == 0 ? largest : planned.plan.least() + random() % std::max<uint64_t>(most, 1);
      if (bytes > largest) continue;
      const StripePlan::Row& row = planned.row(random(), bytes);
      ASSERT_GE(row.parts, 1);
      uint32_t begin = 0;
      uint32_t lanes = 0;
      for (uint32_t part = 0; part < row.parts; ++part) {
        const uint32_t end = row.endOf(part, static_cast<uint32_t>(bytes));
        ASSERT_GE(end, begin);
        ASSERT_LE(end - begin, largest_part) << bytes;
        if (part + 1 < row.parts) ASSERT_EQ(end % kCutAlignment, 0U);
        ASSERT_EQ(lanes >> row.lane[part] & 1, 0U) << "a lane twice";
        lanes |= 1U << row.lane[part];
        begin = end;
      }
      ASSERT_EQ(begin, bytes);
    }
  }
}

TEST(StripePlan, GivesEachLaneWhatItsRateSays) {
  Planned planned({400'000, 100'000, 100'000, 200'000});
  for (const uint32_t bytes : {64U << 10, 100U << 10, 1U << 20, 4U << 20}) {
    const auto carried = planned.carried(bytes, 400);
    const double all = 400.0 * bytes;
    EXPECT_NEAR(static_cast<double>(carried[0]) / all, 0.5, 0.03) << bytes;
    EXPECT_NEAR(static_cast<double>(carried[1]) / all, 0.125, 0.03) << bytes;
    EXPECT_NEAR(static_cast<double>(carried[3]) / all, 0.25, 0.03) << bytes;
  }
}

// 64 KiB are four parts of 16 KiB.
TEST(StripePlan, TakesAllLanesInTurnsForSmallMessages) {
  Planned planned(std::vector<int>(8, 100'000));
  EXPECT_EQ(planned.row(0, kStripeBytes).parts, 4);
  for (const uint64_t bytes : planned.carried(kStripeBytes, 100))
    EXPECT_NEAR(static_cast<double>(bytes), 100.0 / 8 * kStripeBytes, 1);
}

// Below 64 KiB a message goes over the lane that will be the first to deliver it.
TEST(StripePlan, SendsASmallMessageOverTheQuickestLane) {
  Planned planned({100'000, 400'000, 100'000});
  EXPECT_EQ(planned.plan.least(), kMinSegmentBytes);
  for (int message = 0; message < 3; ++message) {
    const StripePlan::Row& row = planned.row(0, kStripeBytes - 1);
    EXPECT_EQ(row.parts, 1);
    EXPECT_EQ(row.lane[0], 1) << message;
  }
  planned.loads[1].posted(4 * kStripeBytes, 0);
  EXPECT_NE(planned.row(0, kStripeBytes - 1).lane[0], 1);
  Planned equal({100'000, 100'000});
  EXPECT_NE(equal.row(0, kMinSegmentBytes).lane[0], equal.row(0, kMinSegmentBytes).lane[0]) << "in turns";
}

TEST(StripePlan, SplitsEvenlyWhenAskedTo) {
  Planned planned({400'000, 100'000}, true);
  EXPECT_EQ(planned.row(0, 1 << 20).endOf(0, 1 << 20), 1U << 19);
}

// Even parts do not follow the rates, so a slow lane always lags.
TEST(StripePlan, EvenPartsNeverLag) {
  Planned planned({400'000, 100'000}, true);
  planned.loads[1].posted(9 * kMessage, 0);
  int planned_messages = 0;
  for (uint64_t number = 0; number < 3000; ++number) {
    if (planned.plan.take(number, kMessage, planned.loads) != nullptr) ++planned_messages;
    else EXPECT_FALSE(planned.plan.noteMeasured(planned.loads));
  }
  EXPECT_GT(planned_messages, 2900);
}

// Also when the shares move slowly.
TEST(StripePlan, IsMadeAnewWhenSharesHaveMoved) {
  Planned planned({100'000, 100'000});
  int made = 0;
  for (int mbps = 100'000; mbps > 50'000; mbps -= 300) {
    planned.loads[1] = LaneLoad(mbps);
    for (int message = 0; message < 8; ++message) made += planned.plan.noteMeasured(planned.loads) ? 1 : 0;
  }
  EXPECT_GT(made, 0);
}

// Few measured messages among many that are not: the lanes are measured all the same.
TEST(StripePlan, MessagesThatAreCutForOtherReasonsDoNotPutOffMeasuring) {
  Planned planned({100'000, 100'000});
  int measured = 0;
  for (uint64_t number = 0; number < 5000; ++number) {
    measured += planned.plan.take(number, kMessage, planned.loads) == nullptr ? 1 : 0;
    (void)planned.plan.noteMeasured(planned.loads);
  }
  EXPECT_GT(measured, 3);
}

// A row of small stripes has only some lanes. A lane that owes much is seen all the same.
TEST(StripePlan, ALaneThatLagsIsSeenWhateverRowsItIsIn) {
  const std::vector<std::vector<int>> mixes = {std::vector<int>(2, 100'000),
                                               std::vector<int>(7, 100'000),
                                               std::vector<int>(8, 100'000),
                                               {400'000, 100'000},
                                               {200'000, 25'000},
                                               {400'000, 400'000, 100'000}};
  for (const std::vector<int>& mbps : mixes) {
    for (std::size_t lane = 0; lane < mbps.size(); ++lane) {
      Planned planned(mbps);
      planned.loads[lane].posted(64 << 20, 0);
      uint64_t looked = 1;
      while (looked <= 32 && planned.plan.take(looked, kStripeBytes, planned.loads) != nullptr) ++looked;
      EXPECT_LE(looked, 32U) << mbps.size() << " lanes, lane " << lane;
    }
  }
}

TEST(StripePlan, IsOnlyForSeveralLanesWithLoads) {
  EXPECT_EQ(Planned({100'000}).plan.largest(), 0U);
  EXPECT_EQ(Planned(std::vector<int>(9, 100'000)).plan.largest(), 0U) << "an immediate counts eight parts";
  EXPECT_EQ(Planned({100'000, 100'000}, false, kStripeBytes - 1).plan.largest(), 0U);
  StripePlan plan;
  std::vector<Lane> lanes(2);
  plan.make(lanes, false, kLargestPart);
  EXPECT_EQ(plan.largest(), 0U);
}

TEST(StripePlan, AMessageIsCutByTheRatesWhileALaneLagsBehind) {
  Planned planned({100'000, 100'000});
  (void)planned.row(0, kMessage);
  planned.loads[1].posted(kMessage, 0);
  EXPECT_NE(planned.plan.take(1, kMessage, planned.loads), nullptr);
  planned.loads[1].posted(4 * kMessage, 0);
  EXPECT_EQ(planned.plan.take(2, kMessage, planned.loads), nullptr);
  planned.loads[1].completed(5 * kMessage);
  EXPECT_EQ(planned.plan.take(3, kMessage, planned.loads), nullptr) << "the lanes are measured first";
}

// Of small messages only one in four looks.
TEST(StripePlan, ASmallMessageIsCutByTheRatesWhenItLooks) {
  Planned planned({100'000, 100'000});
  planned.loads[1].posted(kMessage, 0);
  EXPECT_NE(planned.plan.take(5, kStripeBytes, planned.loads), nullptr);
  EXPECT_NE(planned.plan.take(6, kStripeBytes, planned.loads), nullptr);
  EXPECT_NE(planned.plan.take(7, kStripeBytes, planned.loads), nullptr);
  EXPECT_EQ(planned.plan.take(11, kStripeBytes, planned.loads), nullptr);
}

// ---- the same as for messages that are all cut by the rates (stripe_test.cc)

SimulatedSender planned(const std::vector<double>& speeds, std::size_t bytes = kMessage) {
  SimulatedSender sender(speeds, bytes);
  sender.plan();
  return sender;
}

TEST(PlannedRates, LetEqualLanesCarryWhatEvenSharesCarry) {
  for (const std::size_t bytes : {std::size_t{4} << 20, std::size_t{kMessage}}) {
    for (const std::size_t count : {2, 4, 8}) {
      const std::vector<double> speeds(count, 50.0 / static_cast<double>(count));
      const double even = SimulatedSender(speeds, bytes).send(2000, true);
      EXPECT_GE(planned(speeds, bytes).send(2000), 0.99 * even) << count << " lanes, " << bytes;
    }
  }
}

TEST(PlannedRates, LetUnequalLanesCarryTheirSum) {
  EXPECT_GE(planned({40, 10}).send(2000), 0.97 * 50);
  EXPECT_GE(planned({12.5, 12.5, 12.5, 6.25}).send(2000), 0.97 * 43.75);
}

TEST(PlannedRates, FollowASlowdownWithin32Messages) {
  for (const double slow : {6.25, 3.125, 1.25}) {
    for (const int before : {100, 900, 1100}) {
      SimulatedSender sender = planned({12.5, 12.5, 12.5, 12.5});
      sender.send(before);
      sender.becomes(3, slow);
      sender.send(32);
      EXPECT_GE(sender.send(64), 0.9 * (37.5 + slow)) << slow << " after " << before;
      EXPECT_GE(sender.send(2000), 0.95 * (37.5 + slow)) << slow << " after " << before;
    }
  }
}

TEST(PlannedRates, FollowALaneThatRecovers) {
  SimulatedSender sender = planned({12.5, 12.5, 12.5, 12.5});
  sender.send(100);
  sender.becomes(3, 1.25);
  sender.send(200);
  sender.becomes(3, 12.5);
  sender.send(500);
  EXPECT_GE(sender.send(500), 0.97 * 50);
}

TEST(PlannedRates, OutliveAPause) {
  SimulatedSender sender = planned({12.5, 12.5, 12.5, 12.5});
  sender.send(100);
  sender.pauses(3, 200e6);  // ns
  sender.send(32);
  EXPECT_GE(sender.send(32), 0.97 * 50);
}

TEST(PlannedRates, AreLookedAtForFewMessages) {
  SimulatedSender sender = planned({12.5, 12.5, 12.5, 12.5});
  sender.send(20'000);
  EXPECT_LE(sender.cutByRates(), 20'000 / 10);
}

}  // namespace
}  // namespace railwise::net
