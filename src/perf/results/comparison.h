// Compares a run with an earlier run, which was saved with --json. Pure, but for reading the file.
//
// The rule: each side is known by the quartiles of its single iterations. A size is slower or faster if the
// medians differ by 5 % or more and the ranges between the quartiles do not touch. It is equal if the medians
// differ by less. Otherwise the iterations vary too much for a verdict. Where the machine was busy with other
// things in one of the runs, nothing is called slower or faster.
#pragma once

#include <string>
#include <vector>

#include "base/outcome.h"
#include "base/text/json.h"
#include "perf/results/report.h"

namespace railwise::cli {

// The times of the iterations of one measurement, in microseconds.
struct Quartiles {
  int samples = 0;
  double low = 0;
  double median = 0;
  double high = 0;
};

struct SavedRow {
  uint64_t bytes = 0;
  std::string type;
  std::string redop;
  int root = -1;
  Quartiles out_of_place;
  Quartiles in_place;
};

struct SavedRun {
  std::string file;
  std::string command;  // "perf all_reduce"
  std::string plugin;   // its name
  int ranks = 0;
  bool busy = false;  // Surroundings::busy() of that run
  std::string setup;  // what else must be equal for a fair comparison, in words
  std::vector<SavedRow> rows;
};
// The error names the file and what is wrong with it.
Outcome<SavedRun> readSavedRun(const std::string& file);
Outcome<SavedRun> parseSavedRun(const std::string& text, const std::string& file);
// Why the run cannot be compared with `options`, in a sentence. "": it can.
std::string notComparable(const SavedRun& saved, const PerfOptions& options, int ranks);
// SavedRun::setup of this run.
std::string setupText(const Report& report);

enum class Verdict { kEqual, kFaster, kSlower, kNoise, kTooFew };
Verdict compareQuartiles(const Quartiles& before, const Quartiles& now);

struct Change {
  const Row* row = nullptr;
  bool in_place = false;
  Quartiles before;
  Quartiles now;
  Verdict verdict = Verdict::kEqual;
};
struct Comparison {
  std::string file;
  std::string plugin;   // of the saved run
  std::string differs;  // the setups, in words; "": they are equal
  std::vector<Change> changes;
  std::string busy;  // in which run the machine was busy, in words; "": in none
  int only_now = 0;  // measurements that the saved run does not have

  int count(Verdict verdict) const;
};
Comparison compareRuns(const SavedRun& saved, const Report& report);
// Lines of the footer, and members of the JSON document.
std::string comparisonText(const Comparison& comparison);
void addComparison(JsonWriter& json, const Comparison& comparison);

}  // namespace railwise::cli
