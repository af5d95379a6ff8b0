// What a connection reports of paths that failed, in simulated time.
#include "net/paths/recovery_log.h"

#include <gtest/gtest.h>

#include "net/paths/silence.h"

namespace railwise::net {
namespace {

using std::chrono::milliseconds;

const Clock::time_point kLogBegins{std::chrono::seconds(1000)};

TEST(RecoveryLog, HasAReasonUntilQueuePairsAreInUseAgain) {
  RecoveryLog log;
  EXPECT_EQ(log.reason(), "");
  log.leave("its port is down", kLogBegins);
  EXPECT_EQ(log.reason(), "its port is down");
  log.refuse("no queue pair can be made");
  EXPECT_EQ(log.reason(), "no queue pair can be made");
  EXPECT_EQ(log.attempts(), "[no queue pair can be made]");
  log.resume();
  EXPECT_EQ(log.reason(), "");
}

TEST(RecoveryLog, KeepsTheLastEightAttempts) {
  RecoveryLog log;
  for (int i = 0; i < 10; ++i) log.noteTried(std::to_string(i));
  EXPECT_EQ(log.attempts(), "[2] [3] [4] [5] [6] [7] [8] [9]");
}

TEST(RecoveryLog, AnArrivalEndsWhatWasTriedAndTheLostTime) {
  RecoveryLog log;
  log.leave("lost", kLogBegins);
  log.noteTried("a");
  log.noteTried("b");
  log.step(kLogBegins + milliseconds(30), true);
  log.noteArrived(1, true);
  EXPECT_EQ(log.attempts(), "[b]");
  EXPECT_EQ(log.lostTime(), Clock::duration());
  log.noteArrived(2, false);
  EXPECT_EQ(log.attempts(), "");
}

TEST(RecoveryLog, WithoutAnArrivalNothingIsForgotten) {
  RecoveryLog log;
  log.noteArrived(5, false);
  log.noteTried("a");
  log.addLostTime(milliseconds(40));
  log.noteArrived(5, false);
  EXPECT_EQ(log.attempts(), "[a]");
  EXPECT_EQ(log.lostTime(), milliseconds(40));
}

TEST(RecoveryLog, CountsOnlyTheTimeInWhichThePeerTakesPart) {
  RecoveryLog log;
  log.leave("lost", kLogBegins);
  log.step(kLogBegins + milliseconds(50), false);
  log.step(kLogBegins + milliseconds(70), true);
  EXPECT_EQ(log.lostTime(), milliseconds(20));
}

TEST(RecoveryLog, CountsALongPauseAsOneStep) {
  RecoveryLog log;
  log.leave("lost", kLogBegins);
  log.step(kLogBegins + std::chrono::hours(1), true);
  EXPECT_EQ(log.lostTime(), Patience::kLongestStep);
}

TEST(RecoveryLog, MemoryThatIsRefusedSeventeenTimesInARowStaysRefused) {
  RecoveryLog log;
  for (int i = 0; i < 16; ++i) EXPECT_FALSE(log.refusedTooOften(7));
  EXPECT_TRUE(log.refusedTooOften(7));
}

TEST(RecoveryLog, AnArrivalBetweenRefusalsCountsThemAnew) {
  RecoveryLog log;
  for (uint64_t arrived = 0; arrived < 100; ++arrived) EXPECT_FALSE(log.refusedTooOften(arrived));
}

}  // namespace
}  // namespace railwise::net
