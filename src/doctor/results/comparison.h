// What nccl-tests measured beside what NCCL's own model expects of the hosts. Pure; thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/text/json.h"
#include "doctor/finding.h"
#include "doctor/results/nccl_tests.h"
#include "topo/machine/machine.h"

namespace railwise::doctor {

// Below this share of what the model expects a result is a finding. What NVIDIA's engineers call good lies
// between 0.95 and 1 of the model (docs/doctor-log.md); the pair test calls a NIC slow by the same share.
inline constexpr double kFarBelowModel = 0.8;

// What the job is compared with.
struct ModelMachine {
  const topo::Machine* machine = nullptr;  // of each host; null: it is not known
  bool nvls = true;                        // false: the job does without
  std::string why_none;                    // where there is no machine: why, and what would help
  // Settings of the job that the model does not read: "NCCL_ALGO=Ring".
  std::vector<std::string> unread;
  // Where the output does not name its ranks: by NCCL's lines. 0: not known.
  int ranks = 0;
  int hosts = 0;
};

struct Comparison {
  TestRun run;
  int ranks = 0;  // 0: not known
  int hosts = 0;
  std::string obstacle;          // why there is nothing to compare with; "": there is
  std::string alike;             // a machine that may stand for the hosts: "; hosts like ..."; "": none
  std::string model;             // "NCCL's model (2.30.7) of dgx.xml"
  bool estimated = false;        // by Railwise: NCCL has no model of it
  std::string limit;             // what bounds the model's peak, in a sentence
  std::string doubt;             // why the model may not be that of this job; "": it is
  std::vector<double> expected;  // GB/s of the bus, for each row of the run
  // The row with the best result of those that are large enough to tell a bandwidth. None: all are too small.
  std::optional<std::size_t> judged;

  // Of the row that is judged.
  double measured() const { return run.rows[*judged].best(); }
  double share() const { return measured() / expected[*judged]; }
};
Comparison compare(const TestRun& run, const ModelMachine& model);

void judgeResults(std::span<const Comparison> comparisons, Findings& findings);

std::string ranksText(const Comparison& its);  // "16 ranks on 2 hosts"; "": not known
std::string jobText(const Comparison& its);    // "all_reduce, 16 ranks on 2 hosts"
// "320.1 of 458.1 GB/s (70 %) at 8 GiB"; only of a comparison with a judged row.
std::string youGetText(const Comparison& its);

// What stands in the report's first line: "all_reduce 320.1 of 458.1 GB/s (70 %)"; without a model the best
// result.
std::string headlineText(const Comparison& its);
// What the output is of, and why it is not compared where it is not.
std::string readText(const Comparison& its);
// A paragraph and a table: size, measured, expected. "": nothing is compared.
std::string tableText(const Comparison& its);

// Writes the key "results" into the object that is open.
void writeResultsJson(JsonWriter& json, std::span<const Comparison> comparisons);

}  // namespace railwise::doctor
