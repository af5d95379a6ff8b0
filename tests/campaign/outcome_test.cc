// When a run with faults is good.
#include "tests/campaign/outcome.h"

#include <gtest/gtest.h>

#include "cli/options/options.h"
#include "nccl/types.h"

namespace railwise::cli {
namespace {

RankEnd completed() { return {RankEnding::kCompleted, 0, kExitOk, false, ""}; }
RankEnd remoteError() {
  return {RankEnding::kPluginError, ncclRemoteError, kExitFailed, false, "isend to rank 1 failed"};
}
RankEnd told() { return {RankEnding::kTold, 0, kExitFailed, false, "rank 1 failed"}; }

RunEnd runOf(std::vector<RankEnd> ranks, PairsLeft pairs = {4, 4, {}}) {
  RunEnd run;
  run.ranks = std::move(ranks);
  run.pairs = pairs;
  return run;
}
constexpr PairsLeft kNone = {0, 0, 3};

TEST(PerfOutcome, AllCompleted) {
  EXPECT_EQ(judgeRun(runOf({completed(), completed()})), RunOutcome::kCompleted);
  EXPECT_EQ(judgeRun(runOf({completed(), completed()}, kNone)), RunOutcome::kCompleted);
}

TEST(PerfOutcome, AWrongElementIsWrongHoweverItEnded) {
  RunEnd run = runOf({completed(), completed()});
  run.wrong = 1;
  EXPECT_EQ(judgeRun(run), RunOutcome::kWrong);
  run = runOf({remoteError(), told()}, kNone);
  run.wrong = 1;
  EXPECT_EQ(judgeRun(run), RunOutcome::kWrong);
}

TEST(PerfOutcome, UnreachableWhenNothingWasLeftAndAllSaidSo) {
  EXPECT_EQ(judgeRun(runOf({remoteError(), remoteError()}, kNone)), RunOutcome::kUnreachable);
  EXPECT_EQ(judgeRun(runOf({told(), remoteError(), told()}, kNone)), RunOutcome::kUnreachable);
}

TEST(PerfOutcome, AnErrorWhileAPairIsLeftIsAFailure) {
  EXPECT_EQ(judgeRun(runOf({remoteError(), told()}, {1, 1, {}})), RunOutcome::kFailed);
}

TEST(PerfOutcome, AWayThatHasComeBackExcusesNothing) {
  EXPECT_EQ(judgeRun(runOf({remoteError(), told()}, {0, 1, kExcuseMs})), RunOutcome::kUnreachable);
  EXPECT_EQ(judgeRun(runOf({remoteError(), told()}, {0, 1, kExcuseMs + 1})), RunOutcome::kFailed);
}

TEST(PerfOutcome, AnotherErrorThanRemoteIsAFailure) {
  RankEnd system_error = remoteError();
  system_error.result = ncclSystemError;
  EXPECT_EQ(judgeRun(runOf({remoteError(), system_error}, kNone)), RunOutcome::kFailed);
  EXPECT_EQ(judgeRun(runOf({told(), told()}, kNone)), RunOutcome::kFailed);  // of whom?
}

TEST(PerfOutcome, OneThatCompletedAmongThoseThatFailedIsAFailure) {
  EXPECT_EQ(judgeRun(runOf({completed(), remoteError()}, kNone)), RunOutcome::kFailed);
}

TEST(PerfOutcome, HangsCrashesAndKillsAreFailures) {
  RankEnd hung = told();
  hung.ending = RankEnding::kTimeLimit;
  RankEnd crashed = {RankEnding::kSilent, 0, 128 + 11, false, ""};
  RankEnd killed = remoteError();
  killed.killed = true;
  for (const RankEnd& end : {hung, crashed, killed})
    EXPECT_EQ(judgeRun(runOf({remoteError(), end}, kNone)), RunOutcome::kFailed) << endingName(end);
  RankEnd crashed_at_exit = completed();
  crashed_at_exit.exit_status = 128 + 6;
  EXPECT_EQ(judgeRun(runOf({completed(), crashed_at_exit})), RunOutcome::kFailed);
}

TEST(PerfOutcome, AGoodRunWhoseRecordOrVerdictIsWrongIsNotGood) {
  for (RunEnd run : {runOf({completed(), completed()}), runOf({remoteError(), told()}, kNone)}) {
    run.wrong_verdict = true;
    EXPECT_EQ(judgeRun(run), RunOutcome::kWrongVerdict);
    run.record_disagrees = true;
    EXPECT_EQ(judgeRun(run), RunOutcome::kRecordDisagrees);
  }
  RunEnd failed = runOf({remoteError(), completed()}, kNone);
  failed.record_disagrees = failed.wrong_verdict = true;
  EXPECT_EQ(judgeRun(failed), RunOutcome::kFailed);
}

TEST(PerfOutcome, WhatIsLeftBehindIsAFailure) {
  RunEnd run = runOf({completed(), completed()});
  run.left_behind = true;
  EXPECT_EQ(judgeRun(run), RunOutcome::kFailed);
  EXPECT_EQ(judgeRun(runOf({})), RunOutcome::kFailed);
}

TEST(PerfOutcome, EndsHaveNames) {
  EXPECT_EQ(endingName(completed()), "completed");
  EXPECT_EQ(endingName(remoteError()), "ncclRemoteError");
  EXPECT_EQ(endingName(told()), "ended with the job");
  EXPECT_EQ(endingName({RankEnding::kSilent, 0, 128 + 11, false, ""}), "signal 11");
  EXPECT_EQ(endingName({RankEnding::kSilent, 0, 3, false, ""}), "status 3 without a word");
}

}  // namespace
}  // namespace railwise::cli
