#include "topo/choice/pick.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/text/json.h"
#include "base/text/words.h"
#include "gpu/choose/choose.h"
#include "topo/explain/describe.h"
#include "topo/explain/gpu_topology.h"
#include "topo/paths/paths.h"
#include "topo/paths/policy.h"

namespace railwise::topo {
namespace {

constexpr int kMostRank = 1 << 20;
constexpr std::size_t kMostNicNames = 4;  // of one GPU in a text; the others are counted

GpuRow rowOf(const Machine& machine, int gpu) {
  const Graph& graph = *machine.graph;
  const Node& node = graph.of(NodeType::kGpu, gpu);
  const int cpu = machine.paths->localCpu(gpu);
  return {.gpu = gpu,
          .ranks = ranksOnDeviceOf(graph, gpu),
          .dev = node.dev,
          .host = node.host,
          .busid = node.busid,
          .kind = node.gcn.empty() ? "sm_" + std::to_string(node.sm) : node.gcn,
          .numa = cpu < 0 ? -1 : graph.of(NodeType::kCpu, cpu).numa};
}

// Nothing: it is no number from 0 to kMostRank.
std::optional<int> rankIn(std::string_view text) {
  const auto rank = numberIn<int>(text);
  return rank && *rank >= 0 && *rank <= kMostRank ? rank : std::nullopt;
}

// The rows whose GPU has memory of a process, or a MIG instance with one, as the vendor's library says.
std::vector<int> occupiedRows(const Machine& machine, const GpuTable& table) {
  std::vector<int> rows;
  const gpu::GpuTopology topology = gpuTopology(machine);
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const gpu::Device* const device = physicalGpu(topology, *machine.graph, table.rows[row].gpu);
    if (device == nullptr) continue;
    const bool used = std::any_of(topology.gpus.begin(), topology.gpus.end(), [&](const gpu::Device& one) {
      return (one.index == device->index || one.parent == device->index) && one.processes.value_or(0) > 0;
    });
    if (used) rows.push_back(static_cast<int>(row));
  }
  return rows;
}

void writeSet(JsonWriter& json, const Machine& machine, const GpuTable& table, const gpu::GpuSet& set,
              const std::vector<std::vector<NearNic>>& nics) {
  const auto row = [&](int gpu) -> const GpuRow& { return table.rows[static_cast<std::size_t>(gpu)]; };
  json.key("gpus").row(set.gpus, [&](const int gpu) { return row(gpu).rank(); });
  json.key("busids").row(set.gpus, [&](const int gpu) { return row(gpu).busid; });
  json.key("slowest_pair_gb_per_s");
  set.gpus.size() < 2 ? json.null() : json.value(static_cast<double>(set.score.slowest_pair_mbps) / 1000);
  json.key("slowest_pair_type");
  set.gpus.size() < 2 ? json.null() : json.value(pathTypeName(slowestType(table, set)));
  json.key("all_pairs_gb_per_s").value(static_cast<double>(set.score.all_pairs_mbps) / 1000);
  json.key("gpus_with_nic").value(set.score.with_nic).key("nics").beginArray();
  for (std::size_t i = 0; i < set.gpus.size(); ++i)
    for (const NearNic& nic : nics[i]) {
      json.beginInlineObject()
          .key("gpu")
          .value(row(set.gpus[i]).rank())
          .key("nic")
          .value(netName(*machine.graph, nic.net));
      json.key("type")
          .value(pathTypeName(nic.type))
          .key("gb_per_s")
          .value(static_cast<float>(nic.gb_per_s))
          .endInlineObject();
    }
  json.endArray();
}

// As in Pick::best_nics. `rows`: the set; `nets`: the NICs that count, empty: all.
std::vector<std::vector<NearNic>> nicsOfJob(const Machine& machine, const GpuTable& table,
                                            const std::vector<int>& rows, std::vector<int> nets) {
  const Graph& graph = *machine.graph;
  std::vector<bool> gpus(static_cast<std::size_t>(graph.count(NodeType::kGpu)));
  for (const int row : rows)
    for (const int rank : table.rows[static_cast<std::size_t>(row)].ranks)
      gpus[static_cast<std::size_t>(graph.gpuOfRank(rank))] = true;
  Graph job = graph.keeping(NodeType::kGpu, gpus);
  std::sort(nets.begin(), nets.end());
  if (!nets.empty()) {
    std::vector<bool> kept(static_cast<std::size_t>(graph.count(NodeType::kNet)));
    for (const int net : nets) kept[static_cast<std::size_t>(net)] = true;
    job = job.keeping(NodeType::kNet, kept);
  }
  std::vector<std::vector<NearNic>> nics(rows.size());
  const auto paths = Paths::compute(job, *machine.settings);
  if (!paths.ok()) return nics;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const int gpu = job.gpuOfRank(table.rows[static_cast<std::size_t>(rows[i])].rank());
    const auto used = localNets(*paths, gpu);
    for (NearNic& nic : nearNics(*paths, gpu)) {
      if (!used.ok() || std::count(used->begin(), used->end(), nic.net) == 0) continue;
      if (!nets.empty()) nic.net = nets[static_cast<std::size_t>(nic.net)];
      nics[i].push_back(nic);
    }
  }
  return nics;
}

}  // namespace

gpu::ChoiceQuestion GpuTable::question(const std::vector<int>& only_nets) const {
  gpu::ChoiceQuestion question;
  question.gpus = static_cast<int>(rows.size());
  for (const PairLink& link : direct_pairs) question.pair_gb_per_s.push_back(link.gb_per_s);
  for (const GpuRow& row : rows) question.numa.push_back(row.numa);
  for (const auto& list : direct_nics) {
    question.nics.emplace_back();
    for (const NearNic& nic : list)
      if (only_nets.empty() || std::count(only_nets.begin(), only_nets.end(), nic.net) > 0)
        question.nics.back().push_back({nic.net, static_cast<int>(nic.type), nic.gb_per_s});
  }
  return question;
}

std::vector<int> GpuTable::ranks() const {
  std::vector<int> ranks;
  for (const GpuRow& row : rows) ranks.push_back(row.rank());
  return ranks;
}

static PairLink linkOf(const Paths& paths, int from, int to) {
  const Path& there = paths.get(NodeType::kGpu, from, NodeType::kGpu, to);
  const Path& back = paths.get(NodeType::kGpu, to, NodeType::kGpu, from);
  PairLink link;
  link.type = std::max(there.type, back.type);
  if (link.type < PathType::kNet && from != to)
    link.gb_per_s = static_cast<double>(std::min(there.bandwidth, back.bandwidth));
  return link;
}

static bool isRelayed(const PairLink& link) { return link.type == PathType::kNvb; }
static bool anyRelayed(const std::vector<NearNic>& nics) {
  return std::any_of(nics.begin(), nics.end(), [](const NearNic& nic) { return nic.type == PathType::kPxn; });
}

GpuTable gpuTable(const Machine& machine) {
  const Graph& graph = *machine.graph;
  GpuTable table;
  for (int gpu = 0; gpu < graph.count(NodeType::kGpu); ++gpu) {
    GpuRow row = rowOf(machine, gpu);
    if (row.rank() == graph.of(NodeType::kGpu, gpu).rank) table.rows.push_back(std::move(row));
  }
  std::sort(table.rows.begin(), table.rows.end(),
            [](const GpuRow& a, const GpuRow& b) { return a.rank() < b.rank(); });
  const auto look = [&](const Paths& paths, auto& pairs, auto& nics) {
    for (const GpuRow& from : table.rows) {
      for (const GpuRow& to : table.rows) pairs.push_back(linkOf(paths, from.gpu, to.gpu));
      nics.push_back(nearNics(paths, from.gpu));
    }
  };
  look(*machine.paths, table.pairs, table.nics);
  table.direct_pairs = table.pairs;
  table.direct_nics = table.nics;
  if (std::none_of(table.pairs.begin(), table.pairs.end(), isRelayed) &&
      std::none_of(table.nics.begin(), table.nics.end(), anyRelayed))
    return table;
  Settings settings = *machine.settings;
  settings.nvb_disable = 1;
  settings.pxn_disable = 1;
  const auto paths = Paths::compute(graph, settings);
  if (!paths.ok()) return table;
  table.direct_pairs.clear();
  table.direct_nics.clear();
  look(*paths, table.direct_pairs, table.direct_nics);
  return table;
}

Outcome<std::vector<int>> rowsOf(const GpuTable& table, const std::string& list) {
  std::vector<int> all_ranks;
  for (const GpuRow& row : table.rows) all_ranks.insert(all_ranks.end(), row.ranks.begin(), row.ranks.end());
  std::sort(all_ranks.begin(), all_ranks.end());
  std::vector<int> rows;
  for (const std::string& item : splitAt(list, ',')) {
    const std::size_t dash = item.find('-');
    const auto first = rankIn(std::string_view(item).substr(0, dash));
    const auto last = dash == std::string::npos ? first : rankIn(std::string_view(item).substr(dash + 1));
    if (!first || !last || *last < *first)
      return Error{"'" + list + "' is no list of GPUs such as 0-3,7", Code::kInvalidArgument};
    for (int rank = *first; rank <= *last; ++rank) {
      const auto at = std::find_if(table.rows.begin(), table.rows.end(), [&](const GpuRow& row) {
        return std::count(row.ranks.begin(), row.ranks.end(), rank) > 0;
      });
      if (at == table.rows.end())
        return Error{"there is no GPU " + std::to_string(rank) + "; the machine has " + rangesText(all_ranks),
                     Code::kInvalidArgument};
      rows.push_back(static_cast<int>(at - table.rows.begin()));
    }
  }
  return rows;
}

Outcome<std::vector<int>> netsOf(const Graph& graph, const std::string& list) {
  std::vector<int> nets;
  for (const std::string& item : splitAt(list, ',')) {
    std::vector<std::string> names;
    bool found = false;
    for (int net = 0; net < graph.count(NodeType::kNet); ++net) {
      const std::string& name = graph.of(NodeType::kNet, net).name;
      names.push_back(netName(graph, net));
      if (item != name && item != names.back()) continue;
      nets.push_back(net);
      found = true;
    }
    if (found) continue;
    const std::string there = names.empty() ? "the machine has none" : "the machine has " + listText(names);
    return Error{"there is no NIC '" + item + "'; " + there, Code::kInvalidArgument};
  }
  return nets;
}

std::string typeText(const Graph& graph, PathType type) {
  return type == PathType::kNvl && isAmd(graph) ? "xGMI" : pathTypeName(type);
}

PathType slowestType(const GpuTable& table, const gpu::GpuSet& set) {
  auto type = PathType::kLoc;
  for (const int a : set.gpus)
    for (const int b : set.gpus) {
      const PairLink& link = table.directPair(static_cast<std::size_t>(a), static_cast<std::size_t>(b));
      if (a != b && std::llround(link.gb_per_s * 1000) == set.score.slowest_pair_mbps)
        type = std::max(type, link.type);
    }
  return type;
}

std::string nicsText(const Graph& graph, const std::vector<NearNic>& nics) {
  if (nics.empty()) return "none";
  std::vector<std::string> names;
  for (const NearNic& nic : nics) names.push_back(netName(graph, nic.net));
  return shortList(std::move(names), kMostNicNames) + " (" + pathTypeName(nics[0].type) + ", " +
         gbText(static_cast<float>(nics[0].gb_per_s)) + " GB/s)";
}

Outcome<PickQuestion> makePickQuestion(const Machine& machine, const GpuTable& table,
                                       const PickWishes& wishes) {
  std::vector<int> nets;
  if (!wishes.nic.empty()) {
    auto named = netsOf(*machine.graph, wishes.nic);
    if (!named.ok()) return Error{"nic: " + named.error()};
    nets = std::move(*named);
  }
  PickQuestion question{.choice = table.question(nets), .nets = nets};
  if (!wishes.of.empty()) {
    auto rows = rowsOf(table, wishes.of);
    if (!rows.ok()) return Error{"of: " + rows.error()};
    question.choice.allowed = std::move(*rows);
  }
  if (!wishes.exclude.empty()) {
    auto rows = rowsOf(table, wishes.exclude);
    if (!rows.ok()) return Error{"exclude: " + rows.error()};
    question.choice.excluded = std::move(*rows);
  }
  if (!wishes.occupied) question.choice.occupied = occupiedRows(machine, table);
  for (const int row : question.choice.occupied)
    question.left_out.push_back(table.rows[static_cast<std::size_t>(row)].rank());
  return question;
}

Outcome<Pick> pickGpus(const Machine& machine, const GpuTable& table, const PickQuestion& question,
                       int count) {
  const gpu::ChoiceQuestion& choice = question.choice;
  auto answer = gpu::chooseGpus(choice, count);
  if (!answer.ok()) {
    const std::string in_use = rangesText(question.left_out);
    return Error{answer.error() + (in_use.empty() ? "" : " (in use: " + in_use + ")")};
  }
  Pick pick{.answer = std::move(*answer), .left_out = question.left_out};
  pick.best_nics = nicsOfJob(machine, table, pick.answer.best.gpus, question.nets);
  if (pick.answer.second)
    pick.second_nics = nicsOfJob(machine, table, pick.answer.second->gpus, question.nets);
  pick.ring = gpu::ringOrder(choice.pair_gb_per_s, choice.gpus, pick.answer.best.gpus);
  pick.intra = gpu::intraFitness(choice.pair_gb_per_s, choice.gpus, pick.answer.best.gpus);
  return pick;
}

std::string pickJson(const Machine& machine, const GpuTable& table, const Pick& pick) {
  const gpu::ChoiceAnswer& answer = pick.answer;
  JsonWriter json;
  json.beginObject().key("schema").value("railwise-gpus-pick").key("schema_version").value(1);
  json.key("machine").value(machine.name);
  writeSet(json, machine, table, answer.best, pick.best_nics);
  json.key("ring").row(pick.ring,
                       [&](const int row) { return table.rows[static_cast<std::size_t>(row)].rank(); });
  json.key("left_out").row(pick.left_out);
  json.key("fitness_intra").value(pick.intra).key("exact").value(answer.exact);
  json.key("equally_good").known(answer.equally_good);
  json.key("why").value(gpu::whyText(answer, table.ranks())).key("second");
  if (answer.second) {
    json.beginObject();
    writeSet(json, machine, table, *answer.second, pick.second_nics);
    json.endObject();
  } else {
    json.null();
  }
  json.endObject();
  return json.text();
}

}  // namespace railwise::topo
