// What perf prints: a table with the same columns as that of nccl-tests, and the same data as one JSON
// document. Rank 0, main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "perf/collective/run_options.h"
#include "perf/measuring/machine_use.h"

namespace railwise::cli {

// Half of a row: the result out of place, or the result in place.
struct Measurement {
  double seconds = 0;  // time of one iteration
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
  std::string devices;  // names of the used devices, separated by commas
};

// Other load on the machine while the rows were measured.
struct Surroundings {
  // Number of cores that the ranks on rank 0's host may use.
  int cores = 0;
  int ranks_on_host = 0;            // number of ranks on rank 0's host
  uint64_t naps = 0;                // how often ranks on all hosts slept while they waited
  std::optional<OthersUse> others;  // load on rank 0's host; null: the run was too short to measure it
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

// algorithmBandwidth() is bytes / time, in GB/s. busFactor() is how many bytes the collective's best
// algorithm moves over the busiest link, per byte. Their product is the bus bandwidth.
double algorithmBandwidth(uint64_t bytes, double seconds);
double busFactor(Collective collective, int ranks);

std::string headerText(const Report& report);
std::string rowText(const Report& report, const Row& row);
std::string footerText(const Report& report);
// `more` adds further members to the document.
std::string jsonText(const Report& report, const std::function<void(JsonWriter&)>& more = {});
// Writes to stdout if `file` is empty. Otherwise the file appears complete or not at all. False: the reason
// was reported to the user.
bool writeDocument(const std::string& file, const std::string& text);

}  // namespace railwise::cli
