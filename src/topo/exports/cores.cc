#include "topo/exports/cores.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "topo/exports/host_view.h"

namespace railwise::topo {
namespace {

// "0-2,8" is {0, 1, 2, 8}.
std::vector<int> numbersIn(const std::string& list) {
  std::vector<int> numbers;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at != end) {
    int first = 0;
    at = std::from_chars(at, end, first).ptr;
    int last = first;
    if (at != end && *at == '-') at = std::from_chars(at + 1, end, last).ptr;
    for (int number = first; number <= last; ++number) numbers.push_back(number);
    if (at != end) ++at;
  }
  return numbers;
}

using CpusOfNodes = std::map<int, std::vector<int>>;

class CpuReader {
 public:
  // Devices without a NUMA node have one with the number -1 in the model; it counts only if there is no
  // other.
  CpuReader(const Graph& graph, const DeviceFacts& facts) {
    const auto& all = graph.of(NodeType::kCpu);
    const bool numbered = std::any_of(all.begin(), all.end(), [&](NodeIndex index) {
      return graph.node(index).host == kExportedHost && graph.node(index).numa >= 0;
    });
    for (const NodeIndex index : all) {
      const Node& cpu = graph.node(index);
      if (cpu.host == kExportedHost && (cpu.numa >= 0 || !numbered)) add(std::max(0, cpu.numa), cpu.affinity);
    }
    for (const auto& [numa, mask] : facts.numa_masks) add(numa, mask);
  }

  CpusOfNodes take() { return std::move(nodes_); }

 private:
  // A CPU that is in several masks belongs to the first.
  void add(int numa, const std::string& mask) {
    std::vector<int>& own = nodes_[numa];
    for (const int cpu : numbersIn(cpuList(mask)))
      if (taken_.insert(cpu).second) own.push_back(cpu);
    std::sort(own.begin(), own.end());
  }

  CpusOfNodes nodes_;
  std::set<int> taken_;
};

// How far apart the two threads of a core are numbered: the CPUs of each node are two halves, and the
// distance between them is equal on all nodes. 0: the masks do not show it.
int threadDistance(const CpusOfNodes& nodes) {
  int distance = 0;
  int with_cpus = 0;
  bool apart = false;
  for (const auto& [numa, cpus] : nodes) {
    if (cpus.empty()) continue;
    ++with_cpus;
    const std::size_t half = cpus.size() / 2;
    if (cpus.size() % 2 != 0 || (distance != 0 && cpus[half] - cpus[0] != distance)) return 0;
    distance = cpus[half] - cpus[0];
    for (std::size_t i = 0; i < half; ++i)
      if (cpus[half + i] - cpus[i] != distance || cpus[i] >= distance) return 0;
    apart = apart || cpus[half] - cpus[half - 1] > 1;
  }
  return with_cpus > 1 || apart ? distance : 0;
}

// CPUs that no mask names are those of nodes without GPUs and NICs. Each run of them counts as a node, for
// the numbers of the cores behind it. first: the first CPU, second: the number of cores.
std::vector<std::pair<int, int>> unnamedCores(const CpusOfNodes& nodes, int distance) {
  std::set<int> named;
  for (const auto& [numa, cpus] : nodes) named.insert(cpus.begin(), cpus.end());
  const int end = distance > 0 ? distance : named.empty() ? 0 : *named.rbegin();
  std::vector<std::pair<int, int>> runs;
  for (int cpu = 0; cpu < end; ++cpu) {
    if (named.count(cpu) != 0) continue;
    if (runs.empty() || runs.back().first + runs.back().second != cpu) runs.emplace_back(cpu, 0);
    ++runs.back().second;
  }
  return runs;
}

}  // namespace

HostCores hostCores(const Graph& graph, const DeviceFacts& facts) {
  HostCores host;
  CpusOfNodes nodes = CpuReader(graph, facts).take();
  host.masks_known =
      std::any_of(nodes.begin(), nodes.end(), [](const auto& node) { return !node.second.empty(); });
  if (!host.masks_known) {
    host.note = "no NUMA node has a CPU mask";
    for (auto& [numa, cpus] : nodes) cpus = {numa};
  }
  const int distance = host.masks_known ? threadDistance(nodes) : 0;
  const bool told = host.masks_known && !facts.first_sibling.empty();
  if (host.masks_known && !told)
    host.note = distance > 0
                    ? "two threads for each core are assumed, numbered " + std::to_string(distance) + " apart"
                    : "one thread for each core is assumed: CPU masks do not tell which share a core";
  const auto core_of = [&](int cpu) {
    if (const auto at = facts.first_sibling.find(cpu); told && at != facts.first_sibling.end())
      return at->second;
    return distance > 0 && cpu >= distance ? cpu - distance : cpu;
  };
  std::map<int, int> cores_from;  // number of cores, by the first CPU of a node
  for (const auto& [numa, cpus] : nodes) {
    std::map<int, std::vector<int>> cores;
    for (const int cpu : cpus) cores[core_of(cpu)].push_back(cpu);
    NumaCores& node = host.nodes[numa];  // a node without CPUs is in the map too
    for (auto& [first, own] : cores) node.cores.push_back(std::move(own));
    if (!cpus.empty()) cores_from[cpus.front()] = static_cast<int>(node.cores.size());
  }
  if (facts.numa_masks.empty())
    for (const auto& [first, count] : unnamedCores(nodes, distance)) cores_from[first] = count;
  for (auto& [numa, node] : host.nodes)
    for (const auto& [first, count] : cores_from)
      if (!node.cores.empty() && first < node.cores.front().front()) node.first_core += count;
  return host;
}

std::string coresText(const HostCores& host, int numa) {
  const auto node = host.nodes.find(numa);
  if (!host.masks_known || node == host.nodes.end() || node->second.cores.empty()) return "";
  const int first = node->second.first_core;
  const int last = first + static_cast<int>(node->second.cores.size()) - 1;
  return std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
}

}  // namespace railwise::topo
