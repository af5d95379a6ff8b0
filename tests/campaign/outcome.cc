#include "tests/campaign/outcome.h"

#include <algorithm>

#include "cli/options/message.h"
#include "cli/options/options.h"

namespace railwise::cli {
namespace {

bool completed(const RankEnd& end) {
  return end.ending == RankEnding::kCompleted && end.exit_status == kExitOk && !end.killed;
}

bool saidRemoteError(const RankEnd& end) {
  return end.ending == RankEnding::kPluginError && end.result == ncclRemoteError;
}

// True if the rank ended by the plugin's ncclRemoteError, or because the job ended after another rank's
// error.
bool endedByRemoteError(const RankEnd& end) {
  return end.exit_status == kExitFailed && !end.killed &&
         (saidRemoteError(end) || end.ending == RankEnding::kTold);
}

// The name alone: "ncclRemoteError" for "ncclRemoteError (the peer ...)".
std::string resultName(int result) {
  const std::string text = resultText(static_cast<ncclResult_t>(result));
  return text.substr(0, text.find(" ("));
}

// A good run whose records or whose diagnosis are wrong is not good.
RunOutcome unlessItTellsWrong(const RunEnd& run, RunOutcome good) {
  if (run.record_disagrees) return RunOutcome::kRecordDisagrees;
  return run.wrong_verdict ? RunOutcome::kWrongVerdict : good;
}

}  // namespace

const char* outcomeName(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::kCompleted:
      return "completed";
    case RunOutcome::kUnreachable:
      return "unreachable";
    case RunOutcome::kWrong:
      return "wrong";
    case RunOutcome::kRecordDisagrees:
      return "record disagrees";
    case RunOutcome::kWrongVerdict:
      return "wrong verdict";
    case RunOutcome::kFailed:
      break;
  }
  return "failed";
}

std::string endingName(const RankEnd& end) {
  if (end.killed) return "did not end";
  if (end.exit_status > 128) return textOf("signal %d", end.exit_status - 128);
  switch (end.ending) {
    case RankEnding::kCompleted:
      return "completed";
    case RankEnding::kPluginError:
      return resultName(end.result);
    case RankEnding::kTold:
      return "ended with the job";
    case RankEnding::kTimeLimit:
      return "time limit";
    case RankEnding::kOther:
      return "other error";
    case RankEnding::kSilent:
      break;
  }
  return textOf("status %d without a word", end.exit_status);
}

bool nothingWasLeft(const PairsLeft& pairs) {
  return pairs.least == 0 && pairs.zero_age_ms && *pairs.zero_age_ms <= kExcuseMs;
}

RunOutcome judgeRun(const RunEnd& run) {
  if (run.wrong > 0) return RunOutcome::kWrong;
  if (run.left_behind || run.ranks.empty()) return RunOutcome::kFailed;
  const auto all = [&](bool (*is)(const RankEnd&)) {
    return std::all_of(run.ranks.begin(), run.ranks.end(), is);
  };
  if (all(completed)) return unlessItTellsWrong(run, RunOutcome::kCompleted);
  const bool said = std::any_of(run.ranks.begin(), run.ranks.end(), saidRemoteError);
  if (said && all(endedByRemoteError) && nothingWasLeft(run.pairs))
    return unlessItTellsWrong(run, RunOutcome::kUnreachable);
  return RunOutcome::kFailed;
}

}  // namespace railwise::cli
