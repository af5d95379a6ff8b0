// What a run with faults came to. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "perf/collective/record.h"

namespace railwise::tools {

// kCompleted: right data, nobody failed. kUnreachable: some pair of ranks had nothing left to talk over, and
// all ranks said so with ncclRemoteError. kWrong: an element was wrong. kFailed: anything else.
enum class Outcome { kCompleted, kUnreachable, kWrong, kFailed };
const char* outcomeName(Outcome outcome);

struct RankEnd {
  RankEnding ending = RankEnding::kSilent;
  int result = 0;       // of the plugin
  int exit_status = 0;  // 128 + signal: it was killed by one
  bool killed = false;  // by the launcher, because it did not end
  std::string text;     // its own words
};
// "completed", "ncclRemoteError", "ended with the job", "time limit", "signal 11" ...
std::string endingName(const RankEnd& end);

// How many pairs of devices, one of each host, can carry traffic: of the pair of ranks that has fewest.
struct PairsLeft {
  int least = 0;  // in the whole run
  int last = 0;   // when the first rank ended
  // From the last moment at which some pair of ranks had none to the first rank's end; nothing: never.
  std::optional<int> zero_age_ms;
};

struct RunEnd {
  std::vector<RankEnd> ranks;
  uint64_t wrong = 0;
  PairsLeft pairs;
  bool left_behind = false;  // a process, or the fabric
};

// A way that has come back excuses no error any more when it was there for so long.
inline constexpr int kExcuseMs = 1000;

Outcome judgeRun(const RunEnd& run);
// A pair of ranks had no pair of devices left when the first rank ended, or had none so shortly before that
// an error is excused.
bool nothingWasLeft(const PairsLeft& pairs);

// What the JSON document of a run with faults has besides.
struct FaultsReport {
  uint64_t seed = 0;
  std::vector<std::string> schedule;
  RunEnd end;
  Outcome outcome = Outcome::kFailed;
  uint64_t fired = 0;  // entries of the fabric's fault log
  int steps_done = 0;
  int steps = 0;
};
void addFaults(JsonWriter& json, const FaultsReport& faults);
// Part of it: what was done, and what it left.
void addFaultFigures(JsonWriter& json, const FaultsReport& faults);
std::string faultsFooter(const FaultsReport& faults);

}  // namespace railwise::tools
