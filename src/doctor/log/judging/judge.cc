#include "doctor/log/judging/judge.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace railwise::doctor {
namespace {

// The warning that no network could start: its cause is what the plugin's lines say.
bool beginsWithNetwork(const Job& job) {
  const int first = firstError(job);
  return first < 0 || job.events[static_cast<std::size_t>(first)].check == "network-not-found";
}

// Ranks of different versions misread each other.
bool beginsWithVersions(const Evidence& evidence) {
  static constexpr std::string_view kChecks[] = {"ranks-mismatch", "message-truncated",
                                                 "mismatched-collective", "connection-stranger"};
  const int first = firstError(evidence.job());
  return first >= 0 && evidence.versions().size() > 1 &&
         std::ranges::find(kChecks, evidence.job().events[static_cast<std::size_t>(first)].check) !=
             std::end(kChecks);
}

// What the logs say of a low result of nccl-tests.

// Rates of ports in Gb/s, and the share of one that NCCL reaches through it.
constexpr std::array<double, 8> kPortGbps = {10, 25, 40, 50, 100, 200, 400, 800};
constexpr double kLeastShare = 0.88, kMostShare = 1.0;

bool isBond(const Nic& nic) { return nic.name.find("bond") != std::string::npos; }

// The share of the port rate that the bandwidth of one NIC comes near to: {rate in Gb/s, share}.
std::optional<std::pair<double, double>> onePort(double gb_per_s) {
  for (const double rate : kPortGbps)
    if (const double share = gb_per_s * 8 / rate; share >= kLeastShare && share <= kMostShare)
      return std::pair(rate, share);
  return std::nullopt;
}

void judgeBond(const Ranks& ranks, int index, const Process& process, const Measured& measured,
               Findings& findings) {
  const bool bonds = !process.nics.empty() && std::ranges::all_of(process.nics, isBond);
  const Fact* const queue_pairs = setting(process, "NCCL_IB_QPS_PER_CONNECTION");
  if (!bonds || !usesRdma(process) || (queue_pairs != nullptr && std::atoi(queue_pairs->value.c_str()) > 1))
    return;
  const auto port = onePort(measured.gb_per_s / static_cast<double>(process.nics.size()));
  if (!port) return;
  char rate[96];
  std::snprintf(rate, sizeof rate, "%.1f GB/s, with %zu %s: %.2f of one port of %.0f Gb/s", measured.gb_per_s,
                process.nics.size(), process.nics.size() == 1 ? "NIC" : "NICs", port->second, port->first);
  findings.add(
      "bond-one-port", Severity::kWarning,
      "the NIC is a bond (" + process.nics.front().name +
          "), and the result is what one of its ports carries",
      {ranks.seenAt(index, {process.nics.front().name, process.nics_line.place}), {"", measured.where, rate}},
      "A queue pair goes over one port of a bond, and NCCL makes one queue pair for each connection: the "
      "other port carries nothing.",
      "export NCCL_IB_QPS_PER_CONNECTION=2 NCCL_IB_SPLIT_DATA_ON_QPS=0  # then =4, and =1 for the second\n"
      "cat /proc/net/bonding/*; ethtool <interface> | grep Speed  # the rate of each port\n"
      "ibv_devinfo -v -d " +
          process.nics.front().name.substr(0, process.nics.front().name.find(':')));
}

}  // namespace

void judgeReading(const Job& job, const Ranks& ranks, Findings& findings) {
  uint64_t nccl_lines = 0;
  for (const LogFile& file : job.files) {
    nccl_lines += file.nccl_lines;
    const bool begun = file.lines != 0;
    if (!file.problem.empty())
      findings.add(
          "log-unreadable", Severity::kError,
          begun ? "a log cannot be read to its end" : "a log cannot be read",
          {{file.name, begun ? file.name + ":" + std::to_string(file.lines) : file.name, file.problem}},
          "What it says of its ranks is not known.", "ls -l " + file.name + "; file " + file.name);
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
  // The launcher or CUDA had failed before anybody called NCCL, and no setting of NCCL's shows more.
  static constexpr std::string_view kBeforeNccl[] = {"fabric-manager", "nccl-too-old", "cuda-driver",
                                                     "launcher-failed"};
  if (errors && nccl_lines == 0 &&
      std::ranges::find(kBeforeNccl, job.events[static_cast<std::size_t>(first)].check) !=
          std::end(kBeforeNccl))
    return;
  if (nccl_lines == 0 && job.has_pastes) return;
  const auto unread = [](const LogFile& file) { return !file.problem.empty() && file.lines == 0; };
  if (!job.files.empty() && std::ranges::all_of(job.files, unread)) return;  // no log was read
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
    const bool known = !job.events.empty();
    if (!known) finding.severity = Severity::kError;
    finding.what = known ? "no line has NCCL's host and process: which rank wrote what is not known"
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
  const bool network_first = beginsWithNetwork(job), versions_first = beginsWithVersions(evidence);
  const bool whole = job.deduplicated.value.empty();
  if (whole && versions_first) judgeDifferences(evidence, ranks, findings);
  if (network_first) judgeNetwork(evidence, ranks, findings);
  judgeErrors(evidence, ranks, findings);
  if (!network_first) judgeNetwork(evidence, ranks, findings);
  // A version that differs is why a communicator hangs.
  if (whole && !versions_first) judgeDifferences(evidence, ranks, findings);
  if (whole) judgeMissing(job, ranks, findings);
  judgeGpuDirect(job, ranks, findings);
  judgeOneSided(job, ranks, findings);
  findings.sort();
  return findings;
}

void judgeRate(const Ranks& ranks, const Measured& measured, Findings& findings) {
  if (measured.gb_per_s <= 0 || ranks.hosts() < 2) return;
  for (const auto& [index, process] : ranks.members()) {
    judgeBond(ranks, index, process, measured, findings);
    if (measured.below_model && !process.ece.value.empty())
      findings.add("ece-in-use", Severity::kAdvice,
                   "the connections use ECE (enhanced connections of RoCE), and the result is low",
                   {ranks.seenAt(index, process.ece)},
                   "With some switches and firmware the congestion control that ECE turns on makes the "
                   "bandwidth low and unsteady.",
                   "export NCCL_IB_ECE_ENABLE=0  # measure once without it");
  }
}

}  // namespace railwise::doctor
