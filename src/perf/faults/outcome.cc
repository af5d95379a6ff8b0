#include "perf/faults/outcome.h"

#include <algorithm>

#include "cli/options/message.h"
#include "cli/options/options.h"

namespace railwise::tools {
namespace {

bool completed(const RankEnd& end) {
  return end.ending == RankEnding::kCompleted && end.exit_status == kExitOk && !end.killed;
}

bool saidRemoteError(const RankEnd& end) {
  return end.ending == RankEnding::kPluginError && end.result == ncclRemoteError;
}

// The plugin's own error, or the end of the job that followed from another's.
bool endedByRemoteError(const RankEnd& end) {
  return end.exit_status == kExitFailed && !end.killed &&
         (saidRemoteError(end) || end.ending == RankEnding::kTold);
}

// "ncclRemoteError" of "ncclRemoteError (the peer ...)".
std::string resultName(int result) {
  const std::string text = resultText(static_cast<ncclResult_t>(result));
  return text.substr(0, text.find(" ("));
}

}  // namespace

const char* outcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCompleted:
      return "completed";
    case Outcome::kUnreachable:
      return "unreachable";
    case Outcome::kWrong:
      return "wrong";
    case Outcome::kFailed:
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

Outcome judgeRun(const RunEnd& run) {
  if (run.wrong > 0) return Outcome::kWrong;
  if (run.left_behind || run.ranks.empty()) return Outcome::kFailed;
  const auto all = [&](bool (*is)(const RankEnd&)) {
    return std::all_of(run.ranks.begin(), run.ranks.end(), is);
  };
  if (all(completed)) return Outcome::kCompleted;
  const bool said = std::any_of(run.ranks.begin(), run.ranks.end(), saidRemoteError);
  if (said && all(endedByRemoteError) && nothingWasLeft(run.pairs)) return Outcome::kUnreachable;
  return Outcome::kFailed;
}

}  // namespace railwise::tools
