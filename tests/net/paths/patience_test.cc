// No wait of a recovery takes more than its share of RAILWISE_FAILOVER_TIMEOUT.
#include "net/patience.h"

#include <gtest/gtest.h>

#include <numeric>

namespace railwise::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct PatienceTest : testing::TestWithParam<int> {
  const Patience patience{GetParam()};
  const Clock::duration limit = seconds(GetParam());
};

TEST_P(PatienceTest, NoWaitExceedsItsShare) {
  EXPECT_EQ(patience.limit(), limit);
  EXPECT_LE(patience.longestStall(), std::max<Clock::duration>(seconds(1), limit / 8));
  EXPECT_LE(patience.joinEpoch(), limit / 4);
  EXPECT_LE(patience.trial(), limit / 8);
  EXPECT_EQ(patience.trialAtReceiver(), 2 * patience.trial());
  EXPECT_LE(patience.destroyInstead(), limit / 4);
  EXPECT_LE(patience.managerBusy(), limit / 4);
  EXPECT_LE(patience.renewal(), limit / 8);
  EXPECT_LE(patience.flush(), limit / 4);
  EXPECT_LE(Patience::kDrain, limit / 8);
  EXPECT_LE(Patience::kStopAskAgain, limit / 16);
  EXPECT_LE(Patience::kWordFollows, limit / 4);
  EXPECT_LE(Patience::kReasonFollows, limit / 8);
  EXPECT_LE(Patience::kFirstSearch, limit / 4);
  const auto refusal =
      std::accumulate(Patience::kRefusalPauses.begin(), Patience::kRefusalPauses.end(), Clock::duration());
  EXPECT_LE(refusal, limit / 16);
}

TEST_P(PatienceTest, NoWaitIsNothing) {
  for (const Clock::duration wait :
       {patience.joinEpoch(), patience.trial(), patience.destroyInstead(), patience.managerBusy(),
        patience.renewal(), patience.flush(), patience.reopenPause(0), patience.pathPause(1)})
    EXPECT_GE(wait, milliseconds(50));
}

TEST_P(PatienceTest, PausesDoubleUpToTheirShare) {
  EXPECT_EQ(patience.pathPause(1), seconds(1));
  EXPECT_EQ(patience.onlyPathPause(1), milliseconds(5));
  for (int times = 1; times < 100; ++times) {
    EXPECT_LE(patience.pathPause(times), std::min<Clock::duration>(minutes(1), limit));
    EXPECT_LE(patience.onlyPathPause(times), std::min<Clock::duration>(seconds(1), limit / 16));
    EXPECT_LE(patience.reopenPause(times), std::min<Clock::duration>(seconds(10), limit / 16));
    EXPECT_GE(patience.pathPause(times + 1), patience.pathPause(times));
    EXPECT_GE(patience.onlyPathPause(times + 1), patience.onlyPathPause(times));
    EXPECT_GE(patience.reopenPause(times + 1), patience.reopenPause(times));
  }
}

INSTANTIATE_TEST_SUITE_P(Timeouts, PatienceTest, testing::Values(1, 3, 60));

// With the default of a minute nothing is shorter than it must be.
TEST(Patience, OfAMinuteCutsOnlyWhatIsDoubled) {
  constexpr Patience kDefault(60);
  EXPECT_EQ(kDefault.longestStall(), milliseconds(7500));
  EXPECT_EQ(kDefault.joinEpoch(), seconds(2));
  EXPECT_EQ(kDefault.trial(), milliseconds(500));
  EXPECT_EQ(kDefault.destroyInstead(), seconds(1));
  EXPECT_EQ(kDefault.managerBusy(), seconds(8));
  EXPECT_EQ(kDefault.flush(), seconds(1));
  EXPECT_EQ(kDefault.pathPause(100), minutes(1));
}

TEST(Patience, WithoutFailoverADeviceHasFourTimesItsTimeout) {
  EXPECT_EQ(Patience::unreported(true, 20, 7), std::chrono::nanoseconds(int64_t{4096} << 20) * 8 * 4);
  EXPECT_EQ(Patience::unreported(true, 1, 0), seconds(5));
  EXPECT_EQ(Patience::unreported(false, 1, 0), seconds(3));
  EXPECT_EQ(Patience::transfer(12'500'000), seconds(1));
}

}  // namespace
}  // namespace railwise::net
