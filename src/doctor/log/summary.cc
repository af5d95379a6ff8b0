// The head of a report on a job, its table, and the ranks as JSON.
#include <algorithm>
#include <map>

#include "base/text/words.h"
#include "doctor/log/judging/judge.h"
#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

const std::string& versionOf(const Job& job, const Process& process) {
  return process.version.value.empty() ? job.version.value : process.version.value;
}

// The different values of all processes, as one text.
template <typename Value>
std::string allValues(const Ranks& ranks, Value&& value) {
  std::set<std::string> values;
  for (const auto& [index, process] : ranks.members()) values.insert(value(process));
  values.erase("");
  return joined(values, " and ");
}

std::string nicsSummary(const Process& process) {
  if (process.nics.empty()) return "";
  std::vector<std::string> names;
  for (const Nic& nic : process.nics) names.push_back(nic.name + (nic.link.empty() ? "" : "/" + nic.link));
  return counted(names.size(), "NIC", "NICs") + " (" + firstItems(names, 4) + ")";
}

std::string gpuDirectSummary(const Process& process) {
  const GpuDirectCount count = gpuDirectCount(process);
  if (count.all == 0) return "";
  return "GPUDirect with " + std::to_string(count.enabled) + " of " + std::to_string(count.all);
}

std::string pluginSummary(const Process& process) {
  if (process.plugin.value.empty()) return "no plugin";
  return "plugin " + process.plugin.value +
         (process.railwise.value.empty() ? "" : " " + process.railwise.value) +
         (process.plugin_api > 0 ? " (v" + std::to_string(process.plugin_api) + ")" : "");
}

// "13000" of CUDA is 13.0.
std::string driverSummary(const Process& process) {
  const int number = leadingNumber(process.driver.value);
  if (number < 1000) return "";
  return "driver for CUDA " + std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

// One line for processes that say the same.
std::string lineOf(const Job& job, const Process& process) {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& part) {
    if (!part.empty()) parts.push_back(part);
  };
  const std::string& version = versionOf(job, process);
  add(version.empty() ? "" : "NCCL " + version);
  add(driverSummary(process));
  add(pluginSummary(process));
  add(process.network.empty() ? "no network chosen" : "network " + process.network);
  add(nicsSummary(process));
  add(gpuDirectSummary(process));
  add(process.channels.value);
  return joined(parts);
}

void addRankLines(const Job& job, const Ranks& ranks, std::vector<std::string>& looked) {
  struct Group {
    std::size_t processes = 0;
    std::set<int> ranks;
    std::set<std::string> hosts;
  };
  std::map<std::string, Group> groups;
  std::vector<std::string> order;
  for (const auto& [index, process] : ranks.members()) {
    const std::string line = lineOf(job, process);
    if (groups.count(line) == 0) order.push_back(line);
    Group& group = groups[line];
    ++group.processes;
    group.ranks.insert(ranks.of(index).begin(), ranks.of(index).end());
    group.hosts.insert(process.host);
  }
  constexpr std::size_t kMost = 24;
  for (std::size_t i = 0; i < std::min(order.size(), kMost); ++i) {
    const auto& [processes, numbers, hosts] = groups[order[i]];
    const std::vector<std::string> names(hosts.begin(), hosts.end());
    const std::string who = numbers.empty()       ? counted(processes, "process", "processes")
                            : numbers.size() == 1 ? "rank " + rangesText(numbers)
                                                  : "ranks " + rangesText(numbers);
    looked.push_back(who + " (" + firstItems(names, 4) + "): " + order[i]);
  }
  if (order.size() > kMost)
    looked.push_back("and " + std::to_string(order.size() - kMost) + " other kinds of ranks");
}

void addConnections(const Ranks& ranks, std::vector<std::string>& looked) {
  std::map<std::string, Connections> all;
  std::map<std::string, uint64_t> algorithms;
  for (const auto& [index, process] : ranks.members()) {
    for (const auto& [way, connections] : process.connections) {
      all[way].number += connections.number;
      all[way].gpu_direct += connections.gpu_direct;
    }
    for (const auto& [name, times] : process.algorithms) algorithms[name] += times;
  }
  std::vector<std::string> parts;
  parts.reserve(std::max(all.size(), algorithms.size()));
  for (const auto& [way, connections] : all)
    parts.push_back(
        std::to_string(connections.number) + " via " + way +
        (connections.gpu_direct > 0 ? " (" + std::to_string(connections.gpu_direct) + " GDRDMA)" : ""));
  if (!parts.empty()) looked.push_back("ends of connections: " + firstItems(parts, 16));
  parts.clear();
  for (const auto& [name, times] : algorithms) parts.push_back(name + " " + std::to_string(times) + " times");
  if (!parts.empty()) looked.push_back("algorithms: " + firstItems(parts, 16));
}

void addOneSided(const Ranks& ranks, std::vector<std::string>& looked) {
  struct Group {
    std::set<int> ranks;
    std::map<std::string, std::set<int>> connected;  // by NIC
  };
  std::map<std::string, Group> groups;
  for (const auto& [index, process] : ranks.members()) {
    const std::string text = oneSidedText(process);
    if (text.empty()) continue;
    Group& group = groups[text];
    group.ranks.insert(ranks.of(index).begin(), ranks.of(index).end());
    if (process.network == "IB") continue;  // its queue pairs may be those of collectives
    for (const std::string& nic : process.one_sided.connected)
      group.connected[nic].insert(ranks.of(index).begin(), ranks.of(index).end());
  }
  for (const auto& [text, group] : groups) {
    const bool all = groups.size() == 1 || group.ranks.empty();
    const char* const of = group.ranks.size() == 1 ? " of rank " : " of ranks ";
    looked.push_back("one-sided communication" + (all ? "" : of + rangesText(group.ranks)) + ": " + text);
    std::vector<std::string> nics;
    for (const auto& [nic, its] : group.connected) nics.push_back(nic + " (" + rangesText(its) + ")");
    if (!nics.empty()) looked.push_back("NICs of its connections, with their ranks: " + firstItems(nics, 16));
  }
}

void addEce(const Ranks& ranks, std::vector<std::string>& looked) {
  for (const auto& [index, process] : ranks.members()) {
    if (process.ece.value.empty()) continue;
    looked.push_back(
        "ECE is negotiated on RoCE: if the job is slow or unsteady, measure once with NCCL_IB_ECE_ENABLE=0");
    return;
  }
}

void addSettings(const Ranks& ranks, std::vector<std::string>& looked) {
  std::map<std::string, std::set<std::string>> all;
  for (const auto& [index, process] : ranks.members())
    for (const auto& [name, fact] : process.settings) all[name].insert(fact.value);
  std::vector<std::string> parts;
  parts.reserve(all.size());
  for (const auto& [name, values] : all)
    parts.push_back(name + (values.size() == 1 ? "=" + *values.begin()
                                               : " (" + std::to_string(values.size()) + " values)"));
  if (!parts.empty()) looked.push_back("settings: " + firstItems(parts, 32));
}

std::string fileText(const Job& job) {
  uint64_t lines = 0, nccl_lines = 0;
  for (const LogFile& file : job.files) lines += file.lines, nccl_lines += file.nccl_lines;
  return counted(job.files.size(), "log", "logs") + ", " + counted(lines, "line", "lines") + ", " +
         std::to_string(nccl_lines) + " of NCCL";
}

void addHidden(const Job& job, const Ranks& ranks, std::vector<std::string>& hidden) {
  const auto nobody = [&](auto&& has) {
    return std::none_of(ranks.members().begin(), ranks.members().end(),
                        [&](const Ranks::Member& member) { return has(member.process); });
  };
  if (ranks.members().empty()) return;
  if (nobody([](const Process& process) { return !process.network.empty(); }))
    hidden.push_back("the network in use: NCCL_DEBUG=INFO");
  if (nobody([](const Process& process) { return !process.settings.empty(); }))
    hidden.push_back("settings: NCCL_DEBUG_SUBSYS=INIT,ENV,NET");
  if (nobody([](const Process& process) { return !process.connections.empty(); }))
    hidden.push_back("connections: NCCL_DEBUG_SUBSYS=INIT,ENV,NET, or the job has made none");
  if (nobody([](const Process& process) { return !process.algorithms.empty(); }))
    hidden.push_back("algorithms of collectives: NCCL_DEBUG_SUBSYS=INIT,ENV,NET,TUNING");
  if (job.lost_events > 0)
    hidden.push_back(std::to_string(job.lost_events) + " warnings: there are more than are kept");
}

void writeProcess(JsonWriter& json, const Job& job, const Process& process, std::span<const int> ranks) {
  const GpuDirectCount gpu_direct = gpuDirectCount(process);
  json.key("ranks").row(ranks);
  json.key("host").value(process.host);
  json.key("pid").value(process.pid);
  json.key("nccl").value(versionOf(job, process));
  json.key("cuda_driver").value(process.driver.value);
  json.key("plugin").value(process.plugin.value);
  json.key("plugin_api").value(process.plugin_api);
  json.key("network").value(process.network);
  json.key("nics").row(process.nics,
                       [&](const Nic& nic) { return nic.name + (nic.link.empty() ? "" : "/" + nic.link); });
  json.key("gpu_direct").value(static_cast<uint64_t>(gpu_direct.enabled));
  json.key("gpu_direct_of").value(static_cast<uint64_t>(gpu_direct.all));
  json.key("one_sided").value(oneSidedTables(process));
  json.key("channels").value(process.channels.value);
  json.key("warnings").value(process.warnings);
}

}  // namespace

ReportStyle logStyle(const Job& job, const Ranks& ranks) {
  ReportStyle style;
  style.page = "doctor-log.md";
  const std::size_t seen = ranks.seen().size();
  const auto size = static_cast<std::size_t>(std::max(ranks.size(), 0));
  const std::size_t processes = ranks.members().size();
  std::string who = size > seen && seen > 0 ? std::to_string(seen) + " of " + counted(size, "rank", "ranks")
                    : seen > 0              ? counted(seen, "rank", "ranks")
                                            : counted(processes, "process", "processes");
  who += " on " + counted(ranks.hosts(), "host", "hosts");
  const std::string version = allValues(
      ranks, [&](const Process& process) { return std::string(firstWord(versionOf(job, process), "+")); });
  const std::string network = allValues(ranks, [](const Process& process) { return process.network; });
  style.subject = processes == 0 ? fileText(job)
                                 : who + (version.empty() ? "" : ", NCCL " + version) +
                                       (network.empty() ? "" : ", network " + network);
  style.looked.push_back(fileText(job));
  addRankLines(job, ranks, style.looked);
  addConnections(ranks, style.looked);
  addOneSided(ranks, style.looked);
  addEce(ranks, style.looked);
  addSettings(ranks, style.looked);
  addHidden(job, ranks, style.hidden);
  return style;
}

void writeJobJson(JsonWriter& json, const Job& job, const Ranks& ranks) {
  json.key("size").value(ranks.size());
  json.key("ranks").inlineObjects(ranks.members(), [&](const Ranks::Member& member) {
    writeProcess(json, job, member.process, ranks.of(member.index));
  });
  json.key("files").inlineObjects(job.files, [&](const LogFile& file) {
    json.key("name").value(file.name).key("lines").value(file.lines);
    json.key("nccl_lines").value(file.nccl_lines);
  });
}

}  // namespace railwise::doctor
