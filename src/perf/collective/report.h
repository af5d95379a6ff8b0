// What perf prints: nccl-tests' table, column for column, and the same as one JSON document. Rank 0, main
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "perf/collective/run_options.h"
#include "perf/measuring/machine_use.h"

namespace railwise::tools {

// Half a row: out of place or in place.
struct Measurement {
  double seconds = 0;  // of one iteration
  uint64_t wrong = 0;
};

struct Row {
  uint64_t bytes = 0;
  uint64_t count = 0;
  Measurement out_of_place;
  Measurement in_place;
};

struct RankLine {
  int rank = 0;
  int pid = 0;
  std::string host;
  std::string devices;  // names of those in use, with commas
};

// What else went on while the rows were measured.
struct Surroundings {
  int cores = 0;                    // that the ranks on rank 0's host may use
  int ranks_on_host = 0;            // there
  uint64_t naps = 0;                // how often ranks slept while they waited, on all hosts
  std::optional<OthersUse> others;  // of rank 0's host; nothing: it was too short to tell
};

struct Report {
  PerfOptions options;
  int ranks = 1;
  std::string plugin_path;
  std::string plugin_name;
  int api = 0;
  bool software_fallback = false;
  std::vector<RankLine> rank_lines;
  std::vector<Row> rows;
  std::optional<Surroundings> surroundings;

  double averageBusBandwidth() const;  // GB/s over all measurements
  uint64_t wrong() const;
};

// bytes / time, and that times what the collective's best algorithm moves per byte over the busiest link;
// GB/s.
double algorithmBandwidth(uint64_t bytes, double seconds);
double busFactor(Collective collective, int ranks);

std::string headerText(const Report& report);
std::string rowText(const Report& report, const Row& row);
std::string footerText(const Report& report);
// `more` adds further members to the document.
std::string jsonText(const Report& report, const std::function<void(JsonWriter&)>& more = {});
// To stdout when `file` is empty; else the file appears complete or not at all. False: the reason was said.
bool writeDocument(const std::string& file, const std::string& text);

}  // namespace railwise::tools
