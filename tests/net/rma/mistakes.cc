// rma_mistakes: plants one mistake after the other in src/net/rma (net/rma/mistakes.h), and runs the test
// that must find it. First it runs all these tests without a mistake. Exit status 0: everything was found.
//
//   rma_mistakes                       all of them
//   rma_mistakes --mistake NUMBER      one of them, with what its test says
#include "net/rma/mistakes.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace railwise::net {

Mistake planted = Mistake::kNone;

namespace {

struct Planting {
  Mistake mistake;
  const char* what;
  const char* test;  // must find it
};

constexpr Planting kPlantings[] = {
    {Mistake::kSignalBeforeMarks, "a signal before its marks",
     "SignalOrder.ASignalWaitsForTheMarksThatAreOwed"},
    {Mistake::kMarksOfOldEpoch, "marks of an old epoch", "SignalOrder.MarksOfAnOldEpochDoNotCount"},
    {Mistake::kForgetsAppliedSignal, "a signal twice", "SignalOrder.WhatIsAppliedStaysApplied"},
    {Mistake::kTakesOldEpoch, "a report of another epoch", "Rma.AReportOfAnotherEpochEndsTheGroup"},
    {Mistake::kRepeatsWhatIsCertain, "repeats what is certain",
     "RmaStream.AFailureRepeatsNothingThatTheTargetHas"},
    {Mistake::kRepeatsTooLittle, "repeats too little", "RmaStream.AFailureRepeatsWhatNobodyHasConfirmed"},
    {Mistake::kDoneOutOfOrder, "done out of order", "Rma.WhatIsBehindAnOpenRequestIsNotDone"},
    {Mistake::kIgnoresCredit, "ignores credit", "Rma.NoMoreReportsAreUnderWayThanTheTargetHasReceivesFor"},
    {Mistake::kNoFlushOfOthers, "no flush of other rails", "Slots.OtherRailsAreFlushedFirst"},
    {Mistake::kNoFlushOfLeft, "no flush of rails that are left", "Slots.RailsThatWereLeftAreFlushedFirst"},
    {Mistake::kAbsoluteThoughReset, "a whole value into a slot that is reset", "Slots.AResetSlotBeginsAnew"},
};
constexpr std::size_t kMistakes = static_cast<std::size_t>(Mistake::kAbsoluteThoughReset);
static_assert(std::size(kPlantings) == kMistakes, "each mistake has its test");

constexpr unsigned kLimitS = 60;

// In a process of its own, with a software fabric of its own. What gtest's exit status says: 0 passed, 1
// failed; anything else is neither.
int statusOf(const char* program, const Planting& planting) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kLimitS);
    setenv("RAILWISE_FABRIC", ("test" + std::to_string(getpid())).c_str(), 1);
    const std::string number = std::to_string(static_cast<int>(planting.mistake));
    const std::string filter = std::string("--gtest_filter=") + planting.test;
    execl(program, program, "--mistake", number.c_str(), filter.c_str(), "--gtest_brief=1", nullptr);
    _exit(126);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

int checkAll(const char* program) {
  int wrong = 0;
  for (const Planting& planting : kPlantings) {
    const int without = statusOf(program, {Mistake::kNone, "", planting.test});
    const int with = statusOf(program, planting);
    const bool found = without == 0 && with == 1;
    std::printf("%s: %s by %s (status %d, without the mistake %d)\n", planting.what,
                found ? "found" : "NOT FOUND", planting.test, with, without);
    wrong += found ? 0 : 1;
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace railwise::net

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3 || std::strcmp(argv[1], "--mistake") != 0) return railwise::net::checkAll("/proc/self/exe");
  railwise::net::planted = static_cast<railwise::net::Mistake>(std::atoi(argv[2]));
  return RUN_ALL_TESTS();
}
