// Judges how a run with faults ended. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "perf/collective/record.h"

namespace railwise::cli {

// kCompleted: the data was right and no rank failed. kUnreachable: some pair of ranks had no path left, and
// all ranks reported that with ncclRemoteError. kWrong: an element was wrong. kFailed: anything else.
enum class RunOutcome { kCompleted, kUnreachable, kWrong, kFailed };
const char* outcomeName(RunOutcome outcome);

struct RankEnd {
  RankEnding ending = RankEnding::kSilent;
  int result = 0;       // ncclResult_t of the plugin
  int exit_status = 0;  // 128 + signal if a signal ended the rank
  bool killed = false;  // the launcher killed the rank because it did not end
  std::string text;     // the rank's own message
};
// "completed", "ncclRemoteError", "ended with the job", "time limit", "signal 11" ...
std::string endingName(const RankEnd& end);

// How many pairs of devices, one on each host, can carry traffic between two ranks. The numbers are for the
// pair of ranks that has the fewest.
struct PairsLeft {
  int least = 0;  // smallest number in the whole run
  int last = 0;   // number when the first rank ended
  // Time from the last moment at which some pair of ranks had no pair of devices to the end of the first
  // rank. Null: there was no such moment.
  std::optional<int> zero_age_ms;
};

struct RunEnd {
  std::vector<RankEnd> ranks;
  uint64_t wrong = 0;
  PairsLeft pairs;
  bool left_behind = false;  // a process or the fabric is left behind
};

// A path that came back at least this long ago does not excuse an error any more.
inline constexpr int kExcuseMs = 1000;

RunOutcome judgeRun(const RunEnd& run);
// True if some pair of ranks had no pair of devices left when the first rank ended, or shortly before, so
// that an error is excused.
bool nothingWasLeft(const PairsLeft& pairs);

// What the JSON document of a run with faults contains in addition.
struct FaultsReport {
  uint64_t seed = 0;
  std::vector<std::string> schedule;
  RunEnd end;
  RunOutcome outcome = RunOutcome::kFailed;
  uint64_t fired = 0;  // number of entries in the fabric's fault log
  int steps_done = 0;
  int steps = 0;
};
void addFaults(JsonWriter& json, const FaultsReport& faults);
// Writes the part of the report that says which faults were applied and what they left.
void addFaultFigures(JsonWriter& json, const FaultsReport& faults);
std::string faultsFooter(const FaultsReport& faults);

}  // namespace railwise::cli
