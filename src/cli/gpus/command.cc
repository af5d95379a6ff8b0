// railwise gpus: lists the GPUs of a machine; its first word may be a subcommand.
#include <algorithm>
#include <string_view>
#include <tuple>

#include "base/json.h"
#include "cli/gpus/commands.h"
#include "cli/gpus/gpu_table.h"
#include "cli/options/command_line.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "topo/explain/describe.h"

namespace railwise::cli {
namespace {

constexpr std::size_t kMostNicNames = 4;  // of one GPU in the list; the others are counted

constexpr const char* kGpusHelp =
    "usage: railwise gpus [FILE] [--root DIR|TAR] [options]\n"
    "       railwise gpus pick K     which K GPUs a job should take, and why\n"
    "       railwise gpus fitness    how well the hosts of a job fit together\n\n"
    "Lists the GPUs of the machine: PCI address, kind, NUMA node, the best path to other GPUs, and the "
    "nearest NICs.\n"
    "FILE is an NCCL (or RCCL) topology file; without one, this machine.\n"
    "Exit status: 0 all right (also without a GPU), 1 the machine cannot be read, 2 a mistake on the command "
    "line.\n\n";

// The fastest links of a row, of these the nearest kind, and to which GPUs.
struct BestLink {
  PairLink link;
  std::vector<int> ranks;
};

BestLink bestLink(const GpuTable& table, std::size_t row) {
  const auto key = [](const PairLink& link) { return std::tuple(-link.gb_per_s, link.type); };
  BestLink best;
  for (std::size_t other = 0; other < table.rows.size(); ++other) {
    const PairLink& link = table.pair(row, other);
    if (other == row || link.gb_per_s <= 0 || key(link) > key(best.link)) continue;
    if (key(link) < key(best.link)) best = {link, {}};
    best.ranks.push_back(table.rows[other].rank());
  }
  return best;
}

// The NICs that are as near and as fast as the nearest.
std::vector<NearNic> nearestNics(const std::vector<NearNic>& nics) {
  std::vector<NearNic> nearest;
  for (const NearNic& nic : nics)
    if (nic.type == nics[0].type && nic.gb_per_s == nics[0].gb_per_s) nearest.push_back(nic);
  return nearest;
}

std::string nicText(const topo::Graph& graph, const std::vector<NearNic>& nearest) {
  if (nearest.empty()) return "none";
  std::vector<std::string> names;
  for (const NearNic& nic : nearest) names.push_back(topo::netName(graph, nic.net));
  if (names.size() > kMostNicNames) {
    const std::size_t more = names.size() - kMostNicNames;
    names.resize(kMostNicNames);
    names.push_back(std::to_string(more) + " more");
  }
  return topo::listText(names) + " (" + topo::pathTypeName(nearest[0].type) + ", " +
         topo::gbText(static_cast<float>(nearest[0].gb_per_s)) + " GB/s)";
}

std::string listText(const topo::Machine& machine, const GpuTable& table) {
  const bool hosts = machine.graph->hosts() > 1;
  std::vector<std::vector<std::string>> lines = {
      {"GPU", "PCI address", "kind", "NUMA", "best path to GPUs", "nearest NIC"}};
  if (hosts) lines[0].insert(lines[0].begin() + 1, "host");
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const GpuRow& row = table.rows[i];
    const BestLink best = bestLink(table, i);
    const std::string link = best.ranks.empty() ? "none"
                                                : typeText(*machine.graph, best.link.type) + " " +
                                                      topo::gbText(static_cast<float>(best.link.gb_per_s)) +
                                                      " GB/s to " + topo::rangesText(best.ranks);
    lines.push_back({topo::rangesText(row.ranks), row.busid, row.kind,
                     row.numa < 0 ? "-" : std::to_string(row.numa), link,
                     nicText(*machine.graph, nearestNics(table.nics[i]))});
    if (hosts) lines.back().insert(lines.back().begin() + 1, std::to_string(row.host));
  }
  std::vector<std::size_t> widths(lines[0].size(), 0);
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i + 1 < line.size(); ++i)
      text += line[i] + std::string(widths[i] - line[i].size() + 2, ' ');
    text += line.back() + "\n";
  }
  return text;
}

std::string listJson(const topo::Machine* machine, const GpuTable& table) {
  JsonWriter json;
  json.beginObject().key("schema").value("railwise-gpus").key("schema_version").value(1);
  if (machine != nullptr) json.key("machine").value(machine->name);
  json.key("gpus").beginArray();
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const GpuRow& row = table.rows[i];
    json.beginObject().key("rank").value(row.rank()).key("ranks").beginRow();
    for (const int rank : row.ranks) json.value(rank);
    json.endRow().key("dev").value(row.dev).key("host").value(row.host).key("busid").value(row.busid);
    json.key("kind").value(row.kind).key("numa");
    row.numa < 0 ? json.null() : json.value(row.numa);
    const BestLink best = bestLink(table, i);
    json.key("best_path");
    if (best.ranks.empty()) {
      json.null();
    } else {
      json.beginInlineObject().key("type").value(topo::pathTypeName(best.link.type));
      json.key("gb_per_s").value(static_cast<float>(best.link.gb_per_s)).key("to").beginRow();
      for (const int rank : best.ranks) json.value(rank);
      json.endRow().endInlineObject();
    }
    json.key("nearest_nics").beginArray();
    for (const NearNic& nic : nearestNics(table.nics[i])) {
      json.beginInlineObject().key("name").value(topo::netName(*machine->graph, nic.net));
      json.key("type").value(topo::pathTypeName(nic.type));
      json.key("gb_per_s").value(static_cast<float>(nic.gb_per_s)).endInlineObject();
    }
    json.endArray().endObject();
  }
  json.endArray().endObject();
  return json.text() + "\n";
}

int listCommand(Args args) {
  MachineOptions options;
  bool json = false;
  std::vector<Option> table = {flagOption('j', "json", &json, "JSON instead of a table")};
  addMachineOptions(table, options);
  int status = kExitOk;
  const auto arguments = parseOrLeave("gpus", table, args, kGpusHelp, 1, &status);
  if (!arguments) return status;
  bool without_gpus = false;
  options.without_gpus = &without_gpus;
  const auto machine =
      openMachine("gpus", arguments->positional.empty() ? "" : arguments->positional[0], options);
  if (without_gpus)
    return writeOutput("gpus", "",
                       json ? listJson(nullptr, {}) : "This machine has no GPU by NVIDIA or AMD.\n");
  if (!machine) return kExitFailed;
  const GpuTable gpus = gpuTable(*machine);
  return writeOutput("gpus", "", json ? listJson(&*machine, gpus) : listText(*machine, gpus));
}

}  // namespace

int gpusCommand(Args args) {
  const std::string_view word = args.empty() ? "" : args[0];
  if (word == "pick") return gpusPickCommand(args.subspan(1));
  if (word == "fitness") return gpusFitnessCommand(args.subspan(1));
  return listCommand(args);
}

}  // namespace railwise::cli
