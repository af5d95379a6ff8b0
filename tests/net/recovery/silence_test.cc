// How a connection counts silence, in simulated time.
#include "net/recovery/silence.h"

#include <gtest/gtest.h>

namespace railwise::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Clock::time_point kSilenceBegins{seconds(1000)};

TEST(Silence, LooksAreAnIntervalApart) {
  Silence silence;
  silence.restart(kSilenceBegins);
  EXPECT_FALSE(silence.look(kSilenceBegins + milliseconds(19)));
  EXPECT_EQ(silence.look(kSilenceBegins + milliseconds(25)), milliseconds(25));
  EXPECT_FALSE(silence.look(kSilenceBegins + milliseconds(44)));
}

// A process that was stopped for an hour has not waited for an hour.
TEST(Silence, CountsALongPauseAsOneStep) {
  Silence silence;
  silence.count(std::chrono::hours(1));
  EXPECT_EQ(silence.owed(), kLongestStep);
}

TEST(Silence, EndsWithACompletion) {
  Silence silence;
  silence.count(milliseconds(50));
  silence.end();
  EXPECT_EQ(silence.owed(), Clock::duration());
}

TEST(Silence, IdleTimeIsNotOwedAndAsksOnceASecond) {
  Silence silence;
  int asked = 0;
  for (int ms = 0; ms < 3000; ms += 20) {
    silence.count(milliseconds(20));
    asked += silence.idle() ? 1 : 0;
    EXPECT_EQ(silence.owed(), Clock::duration());
  }
  EXPECT_EQ(asked, 3);
}

TEST(Silence, EachStallInARowDoublesTheLimitUpToSixteenfold) {
  Silence silence;
  EXPECT_EQ(silence.stallLimit({}, {}), seconds(1));
  EXPECT_EQ(silence.stallLimit(seconds(2), {}), seconds(3));
  silence.noteStall();
  EXPECT_EQ(silence.stallLimit({}, {}), seconds(2));
  for (int i = 0; i < 10; ++i) silence.noteStall();
  EXPECT_EQ(silence.stallLimit({}, {}), seconds(16));
  silence.forgetStalls();
  EXPECT_EQ(silence.stallLimit({}, {}), seconds(1));
}

TEST(Silence, IsShorterWhereRoundTripsAreKnown) {
  const Silence silence;
  EXPECT_EQ(silence.stallLimit({}, milliseconds(10)), milliseconds(640));
  EXPECT_EQ(silence.stallLimit({}, milliseconds(1)), milliseconds(200));
  EXPECT_EQ(silence.stallLimit({}, seconds(10)), seconds(1));
  EXPECT_EQ(silence.stallLimit(milliseconds(50), milliseconds(10)), milliseconds(690));
}

TEST(Silence, IsShorterWhereAnotherConnectionHasHadNoAnswer) {
  Silence silence;
  silence.hurry();
  EXPECT_EQ(silence.stallLimit({}, {}), milliseconds(100));
  EXPECT_EQ(silence.stallLimit(milliseconds(50), milliseconds(10)), milliseconds(150));
  silence.end();
  EXPECT_EQ(silence.stallLimit({}, {}), seconds(1));
}

}  // namespace
}  // namespace railwise::net
