#include "doctor/log/judging/judge.h"

#include <algorithm>

namespace railwise::doctor {
namespace {

// The warning that no network could start: its cause is what the plugin's lines say.
bool beginsWithNetwork(const Job& job) {
  const int first = firstError(job);
  return first < 0 || job.events[static_cast<std::size_t>(first)].check == "network-not-found";
}

}  // namespace

void judgeReading(const Job& job, const Ranks& ranks, Findings& findings) {
  uint64_t nccl_lines = 0;
  for (const LogFile& file : job.files) {
    nccl_lines += file.nccl_lines;
    if (!file.problem.empty())
      findings.add("log-unreadable", Severity::kError, "a log cannot be read to its end",
                   {{file.name, file.name + ":" + std::to_string(file.lines), file.problem}},
                   "What it says of its ranks is not known.", "ls -l FILE; file FILE");
  }
  for (const auto& [index, process] : ranks.members()) {
    if (process.shifted.value.empty()) continue;
    findings.add("log-shifted", Severity::kAdvice,
                 "this RCCL shows what Railwise only remarks as \"NCCL WARN\", and its warnings "
                 "without these words",
                 {ranks.seenAt(index, process.shifted)},
                 "RCCL of ROCm 7.2 and newer numbers its log levels otherwise than NCCL. This report "
                 "has put them right; ncclGetLastError shows them wrong.",
                 "install a newer Railwise, which asks RCCL for its numbers");
  }
  if (!job.deduplicated.value.empty())
    findings.add("log-deduplicated", Severity::kAdvice,
                 "Ray has dropped lines that are alike: the log does not have all lines of all ranks",
                 {{"", ranks.placeText(job.deduplicated.place), job.deduplicated.value}},
                 "Which ranks are missing, wait or differ cannot be told from it.",
                 "export RAY_DEDUP_LOGS=0");
  const int first = firstError(job);
  const bool errors = first >= 0;
  // CUDA had failed before anybody called NCCL, and no setting of NCCL's shows more.
  static constexpr std::string_view kBeforeNccl[] = {"fabric-manager", "nccl-too-old", "cuda-driver"};
  if (errors && nccl_lines == 0 &&
      std::find(std::begin(kBeforeNccl), std::end(kBeforeNccl),
                job.events[static_cast<std::size_t>(first)].check) != std::end(kBeforeNccl))
    return;
  if (nccl_lines == 0 && job.has_pastes) return;
  if (nccl_lines > 0 && (ranks.size() > 0 || errors || job.has_results)) return;
  Finding finding = {.check = "log-level",
                     .severity = Severity::kAdvice,
                     .fix = "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV,GRAPH"};
  const LogFile* const file = job.files.empty() ? nullptr : &job.files.front();
  Seen seen = {"", file == nullptr ? "" : file->name,
               file == nullptr ? "" : std::to_string(file->lines) + " lines"};
  if (nccl_lines > 0) {
    finding.what = "the logs do not say how many ranks there are";
    finding.why = "They have warnings alone, or end before a communicator begins.";
    seen.value = "no line of ncclCommInitRank";
  } else if (job.has_results) {
    finding.what = "there is no line of NCCL beside the results";
    finding.why = "Which network, plugin and NICs the ranks use is not known.";
  } else {
    if (!errors) finding.severity = Severity::kError;
    finding.what = errors ? "no line has NCCL's host and process: which rank wrote what is not known"
                          : "there is no line of NCCL in the logs";
    finding.why = "NCCL writes nothing unless it is told to, or it writes elsewhere (NCCL_DEBUG_FILE).";
  }
  finding.seen = {seen};
  findings.add(std::move(finding));
}

Findings judgeJob(const Job& job, const Ranks& ranks) {
  const Evidence evidence(job);
  Findings findings;
  judgeReading(job, ranks, findings);
  if (beginsWithNetwork(job)) {
    judgeNetwork(evidence, ranks, findings);
    judgeErrors(evidence, ranks, findings);
  } else {
    judgeErrors(evidence, ranks, findings);
    judgeNetwork(evidence, ranks, findings);
  }
  if (job.deduplicated.value.empty()) {
    judgeMissing(job, ranks, findings);
    judgeDifferences(evidence, ranks, findings);
  }
  judgeGpuDirect(job, ranks, findings);
  judgeOneSided(job, ranks, findings);
  findings.sort();
  return findings;
}

}  // namespace railwise::doctor
