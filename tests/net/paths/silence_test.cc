// How a connection counts silence, in simulated time.
#include "net/paths/silence.h"

#include <gtest/gtest.h>

namespace railwise::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Clock::time_point kSilenceBegins{seconds(1000)};
constexpr Patience kPatience(600);

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
  EXPECT_EQ(silence.owed(), Patience::kLongestStep);
}

TEST(Silence, EndsWithACompletion) {
  Silence silence;
  silence.count(milliseconds(50));
  silence.end(true);
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
  EXPECT_EQ(silence.stallLimit(kPatience, {}, {}), seconds(1));
  EXPECT_EQ(silence.stallLimit(kPatience, seconds(2), {}), seconds(3));
  silence.noteStall();
  EXPECT_EQ(silence.stallLimit(kPatience, {}, {}), seconds(2));
  for (int i = 0; i < 10; ++i) silence.noteStall();
  EXPECT_EQ(silence.stallLimit(kPatience, {}, {}), seconds(16));
  silence.forgetStalls();
  EXPECT_EQ(silence.stallLimit(kPatience, {}, {}), seconds(1));
}

// Silent paths, one after the other, must not use up the time that a connection has for finding one that
// works.
TEST(Silence, DoublingsEndAtAnEighthOfThePatience) {
  for (const int timeout_s : {1, 3, 60}) {
    const Patience patience(timeout_s);
    Silence silence;
    for (int stalls = 0; stalls < 10; ++stalls) {
      EXPECT_LE(silence.patientLimit(patience, {}),
                std::max<Clock::duration>(seconds(1), milliseconds(timeout_s * 1000 / 8)));
      EXPECT_LE(silence.stallLimit(patience, {}, {}), silence.patientLimit(patience, {}));
      EXPECT_EQ(silence.patientLimit(patience, seconds(5)),
                std::min<Clock::duration>((seconds(1) + seconds(5)) * (1 << std::min(stalls, 4)),
                                          patience.longestStall() + seconds(5)))
          << "a message takes its time nevertheless";
      silence.noteStall();
    }
  }
}

TEST(Silence, TheFirstProofOfANewEpochForgetsTheStallsBeforeIt) {
  Silence silence;
  silence.noteStall();
  silence.noteStall();
  silence.end(false);  // the epoch begins
  EXPECT_EQ(silence.patientLimit(kPatience, {}), seconds(4));
  silence.end(true);
  EXPECT_EQ(silence.patientLimit(kPatience, {}), seconds(1));
  silence.noteStall();
  EXPECT_EQ(silence.patientLimit(kPatience, {}), seconds(2));
}

TEST(Silence, IsShorterWhereRoundTripsAreKnown) {
  const Silence silence;
  EXPECT_EQ(silence.stallLimit(kPatience, {}, milliseconds(10)), milliseconds(640));
  EXPECT_EQ(silence.stallLimit(kPatience, {}, milliseconds(1)), milliseconds(200));
  EXPECT_EQ(silence.stallLimit(kPatience, {}, seconds(10)), seconds(1));
  EXPECT_EQ(silence.stallLimit(kPatience, milliseconds(50), milliseconds(10)), milliseconds(690));
}

TEST(Silence, IsShorterWhereAnotherConnectionHasHadNoAnswer) {
  Silence silence;
  silence.hurry();
  EXPECT_EQ(silence.stallLimit(kPatience, {}, {}), milliseconds(100));
  EXPECT_EQ(silence.stallLimit(kPatience, milliseconds(50), milliseconds(10)), milliseconds(150));
  silence.end(false);
  EXPECT_EQ(silence.stallLimit(kPatience, {}, {}), seconds(1));
}

}  // namespace
}  // namespace railwise::net
