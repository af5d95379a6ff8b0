// Judges how a run with faults ended. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "perf/results/record.h"

namespace railwise::cli {

// kCompleted: the data was right and no rank failed. kUnreachable: some pair of ranks had no path left, and
// all ranks reported that with ncclRemoteError. kWrong: an element was wrong. kFailed: anything else. Of runs
// that were good otherwise, kRecordDisagrees: a rank's record has other counts than the rank's devices;
// kWrongVerdict: `railwise stuck` would have named the wrong cause of a stall.
enum class RunOutcome { kCompleted, kUnreachable, kWrong, kFailed, kRecordDisagrees, kWrongVerdict };
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
  bool record_disagrees = false;
  bool wrong_verdict = false;
};

// A path that came back at least this long ago does not excuse an error any more.
inline constexpr int kExcuseMs = 1000;

RunOutcome judgeRun(const RunEnd& run);
// True if some pair of ranks had no pair of devices left when the first rank ended, or shortly before, so
// that an error is excused.
bool nothingWasLeft(const PairsLeft& pairs);

// What a record and the device of its rails both count.
struct Counted {
  uint64_t bytes = 0;  // payload of work requests
  uint64_t work_requests = 0;
  uint64_t completions = 0;
  bool operator==(const Counted&) const = default;
};

// A device of whose work a record and the device itself tell different counts.
struct CountsDiffer {
  std::string device;
  Counted record;
  Counted device_says;
};
struct RecordDisagreement {
  int rank = 0;
  int time = 0;  // which comparison of this rank, from 1
  std::vector<CountsDiffer> devices;
};

// The comparisons of the ranks' records with their devices (record_check.h).
struct RecordReport {
  int ranks = 0;  // ranks that were compared at least once
  int comparisons = 0;
  std::vector<RecordDisagreement> disagreements;
  std::string problem;  // why a rank could not be compared the last time that one could not; ""
};

// A time in which no rank received data, and what `railwise stuck` would say meanwhile (stall_watch.h).
struct Stall {
  int at_ms = 0;      // since all ranks were connected
  int lasted_ms = 0;  // so far
  std::string verdict;
  std::vector<std::string> named;   // what holds up the job, by the verdict; the first one counts
  std::vector<std::string> broken;  // the devices that are really broken: "h1/soft0"
  bool right = false;
};

// What the JSON document of a run with faults contains in addition.
struct FaultsReport {
  uint64_t seed = 0;
  std::vector<std::string> schedule;
  RunEnd end;
  RunOutcome outcome = RunOutcome::kFailed;
  uint64_t fired = 0;  // number of entries in the fabric's fault log
  int steps_done = 0;
  int steps = 0;
  RecordReport records;
  std::vector<Stall> stalls;
};
void addFaults(JsonWriter& json, const FaultsReport& faults);
// Writes the part of the report that says which faults were applied and what they left.
void addFaultFigures(JsonWriter& json, const FaultsReport& faults);
std::string faultsFooter(const FaultsReport& faults);

}  // namespace railwise::cli
