// Ranks that are missing, and ranks that differ.
#include <algorithm>
#include <functional>
#include <map>

#include "base/settings/setting_mistakes.h"
#include "doctor/log/judging/judge.h"
#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

constexpr std::size_t kMostTwice = 64;

// Settings that may, or must, differ between ranks.
bool mayDiffer(const std::string& setting) {
  static constexpr std::string_view kOwn[] = {
      "NCCL_DEBUG_FILE", "NCCL_HOSTID",  "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_COMM_ID",
      "RAILWISE_HOST",   "RAILWISE_GPU", "RAILWISE_DEVICE",     "RAILWISE_SYSFS_ROOT"};
  return std::ranges::find(kOwn, setting) != std::end(kOwn);
}

struct Attribute {
  const char* check;
  Severity severity;
  std::string what, why, fix;
  // Null value: the logs of this process do not say.
  std::function<Fact(const Process&)> value;
  bool of_network = false;
};

std::string nicsText(const Process& process) {
  std::vector<std::string> nics;
  for (const Nic& nic : process.nics) nics.push_back(nic.name + (nic.link.empty() ? "" : "/" + nic.link));
  std::ranges::sort(nics);
  return firstItems(nics, 64);
}

// "2 RoCE", whatever their names.
std::string nicKindsText(const Process& process) {
  std::map<std::string, std::size_t> kinds;
  for (const Nic& nic : process.nics) ++kinds[nic.link];
  std::vector<std::string> texts;
  texts.reserve(kinds.size());
  for (const auto& [link, number] : kinds)
    texts.push_back(link.empty() ? counted(number, "NIC", "NICs") : std::to_string(number) + " " + link);
  return firstItems(texts, 8);
}

std::string gpuDirectText(const Process& process) {
  const GpuDirectCount count = gpuDirectCount(process);
  if (count.all == 0) return "";
  return count.enabled == count.all ? "GPUDirect with all NICs"
         : count.enabled == 0       ? "GPUDirect with no NIC"
                                    : "GPUDirect with " + std::to_string(count.enabled) + " of " +
                                    std::to_string(count.all) + " NICs";
}

constexpr char kTablesWhy[] =
    "Windows, host RMA and device-side communication between them fail, hang or have no effect. Collectives, "
    "send and receive are not touched.";
constexpr char kTablesFix[] =
    "compare the lines of GIN/Plugin and RMA/Plugin; railwise doctor  # on both nodes: GPUDirect, libibverbs";

// `railwise`: some ranks use Railwise.
std::vector<Attribute> attributes(bool railwise) {
  return {
      {"differ-version", Severity::kError, "the ranks run different NCCL versions",
       "Ranks of different versions cannot talk to each other.", "install one NCCL on all nodes",
       [](const Process& process) { return process.version; }},
      {"differ-network", Severity::kError, "the ranks use different networks",
       "A connection between two networks fails or hangs.",
       (railwise ? "export NCCL_NET_PLUGIN=railwise NCCL_NET=Railwise" : "export NCCL_NET=IB") +
           std::string("  # on all ranks: those that cannot use it then say why"),
       [](const Process& process) {
         const auto line = process.networks.find(process.network);
         return Fact{process.network, line == process.networks.end() ? Place{} : line->second};
       }},
      {"differ-plugin", Severity::kWarning, "the ranks load different plugins",
       "Two different plugins cannot connect.", "install one plugin on all nodes",
       [](const Process& process) { return process.plugin; }},
      {"differ-plugin", Severity::kWarning, "the ranks load different versions of Railwise",
       "Two versions may not connect.", "install one version on all nodes",
       [](const Process& process) { return process.railwise; }},
      {"differ-nics", Severity::kWarning, "the ranks have different NICs",
       "The rank with the fewest sets the speed of all.", "ibstat; railwise devices  # on both nodes",
       [](const Process& process) {
         return usesRdma(process) ? Fact{nicKindsText(process), process.nics_line.place} : Fact{};
       },
       true},
      {"differ-nics", Severity::kAdvice, "the NICs have different names on the ranks",
       "As many and of one kind: as a rule the nodes number them differently.",
       "compare which NICs are meant: railwise devices  # on both nodes",
       [](const Process& process) {
         return usesRdma(process) ? Fact{nicsText(process), process.nics_line.place} : Fact{};
       },
       true},
      {"differ-gdr", Severity::kWarning, "GPUDirect RDMA differs between ranks",
       "The rank without it sets the speed of all.", "modprobe nvidia_peermem  # on the nodes that lack it",
       [](const Process& process) {
         return usesRdma(process) ? Fact{gpuDirectText(process), process.nics_line.place} : Fact{};
       },
       true},
      // RMA first: GIN's proxy is built over it, and one finding of the two is shown.
      {"differ-one-sided", Severity::kWarning, "the table of RMA differs between ranks", kTablesWhy,
       kTablesFix, rmaTables},
      {"differ-one-sided", Severity::kWarning, "the table of GIN differs between ranks", kTablesWhy,
       kTablesFix, ginTables},
      {"differ-driver", Severity::kWarning, "the nodes have different CUDA drivers",
       "Features of NCCL then differ, and some mixtures fail.",
       "railwise fingerprint --json > HOST.json  # on each host\n"
       "railwise fingerprint --compare *.json  # what else differs",
       [](const Process& process) { return process.driver; }},
      {"differ-channels", Severity::kWarning, "the ranks have different numbers of channels",
       "The ranks see machines or settings that differ.", "railwise explain  # on both nodes",
       [](const Process& process) { return process.channels; }},
  };
}

// The processes by value. One value, or none: nothing differs, and the answer is false.
bool judgeAttribute(const Ranks& ranks, const Attribute& attribute, Findings& findings) {
  std::map<std::string, std::vector<Seen>> groups;
  for (const auto& [index, process] : ranks.members()) {
    const Fact fact = attribute.value(process);
    if (!fact.value.empty()) groups[fact.value].push_back(ranks.seenAt(index, fact));
  }
  if (groups.size() < 2) return false;
  const auto most = std::ranges::max_element(
      groups, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const bool majority = std::ranges::all_of(groups, [&](const auto& group) {
    return group.first == most->first || group.second.size() < most->second.size();
  });
  Finding finding = {attribute.check, attribute.severity, attribute.what, {}, attribute.why, attribute.fix};
  for (const auto& [value, members] : groups) {
    if (majority && value == most->first) continue;
    finding.seen.insert(finding.seen.end(), members.begin(), members.end());
  }
  if (majority)
    finding.why +=
        " " + counted(most->second.size(), "process has", "processes have") + " " + most->first + ".";
  findings.add(std::move(finding));
  return true;
}

// A setting is compared where it is logged; NCCL logs some on a few ranks alone, so its absence says
// something only where a whole host lacks it.
void judgeSettings(const Job& job, const Ranks& ranks, Findings& findings) {
  std::set<std::string> names;
  for (const Process& process : job.processes)
    for (const auto& [name, fact] : process.settings)
      if (!mayDiffer(name)) names.insert(name);
  for (const std::string& name : names) {
    judgeAttribute(ranks,
                   {"differ-settings", Severity::kWarning, name + " differs between ranks",
                    "The launcher or a login script gives the ranks different environments.",
                    "set " + name + " in one place for all ranks (mpirun -x, srun --export)",
                    [&](const Process& process) {
                      const auto found = process.settings.find(name);
                      return found == process.settings.end() ? Fact{} : found->second;
                    }},
                   findings);
    std::map<std::string, std::size_t> with, all;
    for (const auto& [index, process] : ranks.members()) {
      if (process.settings.empty()) continue;
      ++all[process.host];
      with[process.host] += process.settings.count(name);
    }
    const auto full = [&](const auto& host) { return with[host.first] == host.second; };
    const auto none = [&](const auto& host) { return with[host.first] == 0; };
    if (!std::ranges::any_of(all, full) || !std::ranges::any_of(all, none)) continue;
    std::vector<Seen> seen;
    for (const auto& host : all)
      if (none(host)) seen.push_back({host.first, "", name + " is not in its logs"});
    findings.add("differ-settings", Severity::kAdvice, name + " is set on some hosts alone", std::move(seen),
                 "The launcher does not give the variable to all hosts, or NCCL had no use for it there.",
                 "set " + name + " in one place for all ranks (mpirun -x, srun --export)");
  }
}

// Ranks that no log tells of. If another rank has completed the communicator of the job, they were there.
void judgeNeverSeen(const Ranks& ranks, bool somebody_waits, bool completed, bool explained,
                    Findings& findings) {
  const Gaps missing = gapsOf(ranks.seen(), ranks.size());
  if (missing.count == 0 || ranks.seen().empty()) return;
  const bool there = completed && ranks.size() == ranks.world();
  findings.add("missing-ranks",
               somebody_waits       ? Severity::kError
               : there || explained ? Severity::kAdvice
                                    : Severity::kWarning,
               counted(missing.count, "rank is in no log", "ranks are in no log") + ": " + missing.text,
               {{"", "",
                 std::to_string(ranks.seen().size()) + " of " + std::to_string(ranks.size()) +
                     " ranks have begun: " + rangesText(ranks.seen())}},
               somebody_waits ? "The other ranks wait for them."
               : explained    ? "Their logs were not given; the error of another rank is reason enough."
               : there
                   ? "They have begun, since other ranks have completed the communicator: their logs were "
                     "not given."
                   : "Their logs were not given, or they never came to NCCL.",
               "give the logs of all ranks: NCCL_DEBUG_FILE=/shared/nccl.%h.%p.log\n"
               "look whether these ranks run: ps, squeue, kubectl get pods");
}

// Each node runs a job of its own, or the logs are of several jobs.
void judgeNumbers(const Job& job, const Ranks& ranks, Findings& findings) {
  if (ranks.world() > 0 && ranks.size() != ranks.world())
    findings.add("ranks-mismatch", Severity::kError,
                 "the largest communicator has " + std::to_string(ranks.world()) + " ranks, not " +
                     std::to_string(ranks.size()),
                 {{"", "--ranks", std::to_string(ranks.size())}},
                 "The launcher gave the ranks another world size than you mean.",
                 "compare WORLD_SIZE, RANK and MASTER_ADDR of all ranks");
  std::vector<Seen> seen;
  for (const auto& [one, other] : ranks.twice())
    for (const int index : {one, other})
      for (const Init& init : job.processes[static_cast<std::size_t>(index)].inits)
        if (ranks.isWorld(init) && seen.size() < kMostTwice)
          seen.push_back(ranks.seenAt(index, init.started));
  if (!seen.empty())
    findings.add("separate-jobs", Severity::kWarning, "two processes say that they are one rank",
                 std::move(seen),
                 "Each node runs a job of its own (a launcher that the program does not know: no MPI, or no "
                 "MASTER_ADDR), or the logs are of several jobs.",
                 "compare WORLD_SIZE, RANK and MASTER_ADDR of all ranks\ngive the logs of one job");
}

void judgeHiding(const Ranks& ranks, Findings& findings) {
  for (const auto& [index, process] : ranks.members()) {
    for (const HidingSetting& setting : hidingSettings()) {
      using enum HidingSetting::Kind;
      // No fault of a job that has failed; or told as the reason for sockets.
      if (setting.kind == kLeftOver || setting.kind == kNoRdma) continue;
      const auto its = process.settings.find(setting.name);
      if (its == process.settings.end() || !setting.hides(its->second.value)) continue;
      const std::string text = std::string(setting.name) + "=" + its->second.value;
      findings.add("hiding-setting",
                   setting.kind == HidingSetting::Kind::kHangs ? Severity::kWarning : Severity::kAdvice,
                   text + " hides faults", {ranks.seenAt(index, {text, its->second.place})}, setting.why,
                   std::string("unset ") + setting.name);
    }
  }
}

}  // namespace

void judgeMissing(const Job& job, const Ranks& ranks, Findings& findings) {
  std::vector<Seen> waiting, split;
  bool completed = false;
  // The log of a release that does not say when it begins has nothing to complete.
  for (const auto& [index, process] : ranks.members()) {
    for (const Init& init : process.inits) {
      completed = completed || (init.complete && ranks.isWorld(init));
      if (init.complete) continue;
      (ranks.isWorld(init) ? waiting : split).push_back(ranks.seenAt(index, init.started));
    }
  }
  const bool waits = !waiting.empty();
  const bool explained = waits && explainsWaiting(job, ranks);
  judgeNeverSeen(ranks, waits && !explained, completed, explained, findings);
  judgeNumbers(job, ranks, findings);
  const auto add = [&](Severity severity, const char* what, std::vector<Seen>& seen) {
    findings.add("init-incomplete", severity, what, std::move(seen),
                 "The rank waits for others, or an error ended it.",
                 "look at the ranks that are missing and at the first error; NCCL_SOCKET_IFNAME must name an "
                 "interface that all nodes share");
  };
  if (waits && !explained) add(Severity::kError, "the communicator was begun and never completed", waiting);
  if (!split.empty())
    add(Severity::kWarning, "a communicator of some ranks was begun and never completed", split);
}

void judgeDifferences(const Evidence& evidence, const Ranks& ranks, Findings& findings) {
  const Job& job = evidence.job();
  std::set<std::string> networks;
  for (const auto& [index, process] : ranks.members()) networks.insert(process.network);
  judgeHiding(ranks, findings);
  // NCCL's own check of their numbers has told.
  const bool told =
      std::ranges::any_of(job.events, [](const Event& event) { return event.check == "mixed-nics"; });
  std::string found;  // the last check that found something: what comes after it under its name says no more
  for (Attribute& attribute : attributes(networks.contains("Railwise"))) {
    if (attribute.check == found) continue;
    // Each network names NICs in its own way.
    if (networks.size() > 1 && attribute.of_network) continue;
    if (std::string_view(attribute.check) == "differ-nics") {
      if (told) continue;
      const Situation situation(evidence, -1, nullptr);
      const Advice advice = adviceOf(situation, attribute.check, {attribute.why, attribute.fix});
      attribute.why = advice.why;
      attribute.fix = advice.fix;
      if (ruleHolds(situation, attribute.check)) attribute.severity = Severity::kError;
    }
    if (judgeAttribute(ranks, attribute, findings)) found = attribute.check;
  }
  judgeSettings(job, ranks, findings);
}

}  // namespace railwise::doctor
