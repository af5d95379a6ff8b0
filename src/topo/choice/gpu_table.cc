#include "topo/choice/gpu_table.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "topo/explain/describe.h"

namespace railwise::topo {
namespace {

constexpr int kMostRank = 1 << 20;

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
  int rank = 0;
  const char* const last = text.data() + text.size();
  const auto [end, failure] = std::from_chars(text.data(), last, rank);
  if (failure != std::errc() || end != last || rank < 0 || rank > kMostRank) return std::nullopt;
  return rank;
}

std::vector<std::string> splitAtCommas(const std::string& list) {
  std::vector<std::string> items(1);
  for (const char c : list) {
    if (c == ',') {
      items.emplace_back();
    } else {
      items.back() += c;
    }
  }
  return items;
}

}  // namespace

gpu::ChoiceQuestion GpuTable::question(const std::vector<int>& only_nets) const {
  gpu::ChoiceQuestion question;
  question.gpus = static_cast<int>(rows.size());
  for (const PairLink& link : pairs) question.pair_gb_per_s.push_back(link.gb_per_s);
  for (const auto& list : nics) {
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

GpuTable gpuTable(const Machine& machine) {
  const Graph& graph = *machine.graph;
  GpuTable table;
  for (int gpu = 0; gpu < graph.count(NodeType::kGpu); ++gpu) {
    GpuRow row = rowOf(machine, gpu);
    if (row.rank() == graph.of(NodeType::kGpu, gpu).rank) table.rows.push_back(std::move(row));
  }
  std::sort(table.rows.begin(), table.rows.end(),
            [](const GpuRow& a, const GpuRow& b) { return a.rank() < b.rank(); });
  for (const GpuRow& from : table.rows) {
    for (const GpuRow& to : table.rows) {
      const Path& there = machine.paths->get(NodeType::kGpu, from.gpu, NodeType::kGpu, to.gpu);
      const Path& back = machine.paths->get(NodeType::kGpu, to.gpu, NodeType::kGpu, from.gpu);
      PairLink link;
      link.type = std::max(there.type, back.type);
      if (link.type < PathType::kNet && from.gpu != to.gpu)
        link.gb_per_s = static_cast<double>(std::min(there.bandwidth, back.bandwidth));
      table.pairs.push_back(link);
    }
    table.nics.push_back(nearNics(machine, from.gpu));
  }
  return table;
}

Outcome<std::vector<int>> rowsOf(const GpuTable& table, const std::string& list) {
  std::vector<int> all_ranks;
  for (const GpuRow& row : table.rows) all_ranks.insert(all_ranks.end(), row.ranks.begin(), row.ranks.end());
  std::sort(all_ranks.begin(), all_ranks.end());
  std::vector<int> rows;
  for (const std::string& item : splitAtCommas(list)) {
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
  for (const std::string& item : splitAtCommas(list)) {
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

}  // namespace railwise::topo
