#include "topo/exports/device_facts.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include "sysfs/pci_devices.h"
#include "sysfs/rdma_devices.h"
#include "topo/exports/host_view.h"
#include "topo/sources/generate/flat_machine.h"

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

constexpr int kFirstRenderMinor = 128;  // of the kernel's DRM

// 4 of "mlx5_4"; -1: the name does not end with a number.
int numberAtEnd(const std::string& name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  int number = -1;
  if (last != std::string::npos) std::from_chars(name.data() + last + 1, name.data() + name.size(), number);
  return number;
}

constexpr char kRdmaClass[] = "/sys/class/infiniband";

// "pci0000:c9" of ".../pci0000:c9/0000:c9:01.0/...". "": the path has no root bus.
std::string rootBusIn(const std::string& path) {
  for (const std::string& component : sysfs::splitPath(path))
    if (component.starts_with("pci") && component.find(':') != std::string::npos) return component;
  return "";
}

std::string nameThatBegins(const sysfs::FileTree& tree, const std::string& folder, const char* begin) {
  for (const std::string& name : tree.list(folder))
    if (name.starts_with(begin)) return name;
  return "";
}

// A recorded tree without a visible switch may be that of a VM: treeIsHidden() cannot tell then.
std::optional<bool> hiddenTree(const sysfs::FileTree& tree, const std::vector<sysfs::PciDevice>& gpus,
                               const std::vector<std::string>& nics) {
  if (treeIsHidden(tree, gpus, nics)) return true;
  const auto below_switch = [](const sysfs::PciDevice& gpu) {
    return sysfs::busIdsAbove(gpu.path).size() > 1;  // a root port is no switch
  };
  if (tree.live() || std::any_of(gpus.begin(), gpus.end(), below_switch)) return false;
  return std::nullopt;
}

// The number at the beginning of "0,96" or "0-1"; -1: there is none.
int leadingNumber(const std::string& text) {
  int number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void readSiblings(const sysfs::FileTree& tree, DeviceFacts& facts) {
  const std::string folder = "/sys/devices/system/cpu";
  for (const std::string& name : tree.list(folder)) {
    const int cpu = name.starts_with("cpu") ? leadingNumber(name.substr(3)) : -1;
    if (cpu < 0) continue;
    const int first =
        leadingNumber(sysfs::firstLine(tree, folder + "/" + name + "/topology/thread_siblings_list"));
    if (first >= 0) facts.first_sibling[cpu] = first;
  }
}

}  // namespace

DeviceFacts readDeviceFacts(const sysfs::FileTree& tree) {
  DeviceFacts facts;
  for (const sysfs::PciDevice& device : sysfs::pciDevices(tree)) {
    if (const std::string root = rootBusIn(device.path); !root.empty()) facts.pcie_roots[device.busid] = root;
    if (const std::string node = nameThatBegins(tree, device.path + "/drm", "renderD"); !node.empty())
      facts.render_nodes[device.busid] = node;
  }
  std::vector<std::string> nics;
  for (const std::string& name : tree.list(kRdmaClass)) {
    const std::string path = sysfs::rdmaPlace(tree, name).path;
    if (path.empty()) continue;
    nics.push_back(path);
    const std::string node =
        nameThatBegins(tree, std::string(kRdmaClass) + "/" + name + "/device/infiniband_verbs", "uverbs");
    if (!node.empty()) facts.uverbs[name] = node;
  }
  const auto gpus = sysfs::gpuDevices(tree);
  if (!gpus.empty()) facts.tree_hidden = hiddenTree(tree, gpus, nics);
  for (const int node : sysfs::numaNodes(tree))
    if (const std::string mask = sysfs::nodeMask(tree, std::to_string(node)); !mask.empty())
      facts.numa_masks[node] = mask;
  readSiblings(tree, facts);
  return facts;
}

std::string gpuDeviceFile(bool amd, int dev, const std::string& render_node) {
  if (!amd) return "/dev/nvidia" + std::to_string(dev);
  return "/dev/dri/" +
         (render_node.empty() ? "renderD" + std::to_string(kFirstRenderMinor + dev) : render_node);
}

std::vector<NicFile> nicFiles(const HostView& host, const DeviceFacts& facts, bool* assumed) {
  std::vector<NicFile> files;
  std::set<int> numbers;
  for (std::size_t nic = 0; nic < host.nics.size(); ++nic) {
    for (const NicPort& port : host.nics[nic].ports) {
      const auto known = [&](const NicFile& file) { return file.device == port.device; };
      if (port.port == 0 || std::any_of(files.begin(), files.end(), known)) continue;
      files.push_back({.device = port.device, .path = "", .nic = static_cast<int>(nic)});
      numbers.insert(numberAtEnd(port.device));
    }
  }
  const bool all_told = std::all_of(
      files.begin(), files.end(), [&](const NicFile& file) { return facts.uverbs.count(file.device) != 0; });
  *assumed = !all_told;
  const bool by_name = numbers.count(-1) == 0 && numbers.size() == files.size();
  for (std::size_t i = 0; i < files.size(); ++i)
    files[i].path =
        "/dev/infiniband/" +
        (all_told ? facts.uverbs.at(files[i].device)
                  : "uverbs" + std::to_string(by_name ? numberAtEnd(files[i].device) : static_cast<int>(i)));
  return files;
}

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
