#include "topo/exports/host_view.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/text/printable.h"
#include "base/text/words.h"
#include "sysfs/pci_devices.h"
#include "sysfs/rdma_devices.h"
#include "topo/explain/describe.h"
#include "topo/explain/explain.h"
#include "topo/explain/gpu_topology.h"
#include "topo/machine/fusion.h"
#include "topo/sources/generate/flat_machine.h"

namespace railwise::topo {
namespace {

bool isAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
}
bool isPlain(char c) { return isAlphanumeric(c) || c == '_' || c == '.' || c == '-'; }

// Cuts `text` to the length of a label of DNS, and removes what is neither a letter nor a digit from both
// ends.
std::string trimmed(std::string text) {
  text = text.substr(0, 63);
  while (!text.empty() && !isAlphanumeric(text.back())) text.pop_back();
  const auto first = std::find_if(text.begin(), text.end(), isAlphanumeric);
  return {first, text.end()};
}

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

bool isDeviceName(std::string_view name) {
  return !name.empty() && name.front() != '-' && name.size() <= 63 &&
         std::all_of(name.begin(), name.end(), isPlain);
}

std::string dnsLabel(std::string_view text) {
  std::string label = lowerCase(text);
  for (char& c : label)
    if (!isAlphanumeric(c)) c = '-';
  return trimmed(std::move(label));
}

std::string slurmWord(std::string_view text) {
  std::string word = lowerCase(text);
  for (char& c : word)
    if (!isAlphanumeric(c) && c != '.' && c != '-') c = '_';
  return word;
}

std::string shellWord(const std::string& text) {
  const auto plain = [](char c) { return isPlain(c) || c == '/' || c == ':' || c == '=' || c == ','; };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string xmlText(std::string_view text) { return escapeXml(withoutControls(cleanUtf8(text))); }

namespace {

void addPorts(const HostView& host, const HostGpu& gpu, std::vector<NicPort>& ports) {
  for (const GivenNic& given : gpu.nics)
    for (const NicPort& port : host.nics[static_cast<std::size_t>(given.nic)].ports)
      if (std::none_of(ports.begin(), ports.end(), [&](const NicPort& known) {
            return known.device == port.device && known.port == port.port;
          }))
        ports.push_back(port);
}

// The number after the last ':' of "mlx4_0:2", or `otherwise`.
NicPort portOf(std::string name, int otherwise) {
  const std::size_t colon = name.rfind(':');
  int port = 0;
  if (colon != std::string::npos) {
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + colon + 1, end, port);
    if (read.ptr == end && port > 0) return {name.substr(0, colon), port};
  }
  return {std::move(name), otherwise};
}

// `first`: the port of the first device of a merged NIC; 0: `net` is an interface.
std::vector<NicPort> portsOf(const Node& net, int first) {
  std::vector<NicPort> ports;
  for (const std::string& name : splitAt(net.name, '+'))
    ports.push_back(portOf(name, ports.empty() || first == 0 ? first : 1));
  return ports;
}

// The NIC node that has the NET. Null: there is none.
const Node* cardOf(const Graph& graph, const Node& net) {
  for (const Link& link : net.links)
    if (graph.node(link.to).type == NodeType::kNic) return &graph.node(link.to);
  return nullptr;
}

// The device's own number of its port, or 0.
int portOf(const Graph& graph, const Node& net) {
  int port = net.port;
  const Node* const card = cardOf(graph, net);
  for (int other = 0; card != nullptr && other < graph.count(NodeType::kNet); ++other) {
    const Node& node = graph.of(NodeType::kNet, other);
    if (node.dev < net.dev && cardOf(graph, node) == card) port -= portsIn(node.name);
  }
  return net.port > 0 ? std::max(port, 1) : net.port;
}

int numaOfNic(const Paths& paths, int net) {
  const Graph& graph = paths.graph();
  int numa = -1;
  auto nearest = PathType::kSys;
  for (int cpu = 0; cpu < graph.count(NodeType::kCpu); ++cpu) {
    const Path& path = paths.get(NodeType::kNet, net, NodeType::kCpu, cpu);
    if (path.type >= nearest) continue;
    nearest = path.type;
    numa = graph.of(NodeType::kCpu, cpu).numa;
  }
  return numa;
}

class HostReader {
 public:
  explicit HostReader(const Machine& machine) : machine_(machine), graph_(*machine.graph) {}

  Outcome<HostView> read() {
    host_.amd = isAmd(graph_);
    if (std::string wrong = readNics(); !wrong.empty()) return Error{machine_.name + ": " + wrong};
    readGpus();
    if (std::string wrong = wrongGpu(); !wrong.empty()) return Error{machine_.name + ": " + wrong};
    countLocalRanks();
    readLinks();
    noteOtherHosts();
    return std::move(host_);
  }

 private:
  // "" or what is wrong with a name.
  std::string readNics() {
    for (int net = 0; net < graph_.count(NodeType::kNet); ++net) {
      const Node& node = graph_.of(NodeType::kNet, net);
      if (node.host != kExportedHost) continue;
      HostNic nic{.net = net, .name = node.name, .ports = portsOf(node, portOf(graph_, node))};
      for (const NicPort& port : nic.ports)
        if (!isDeviceName(port.device))
          return "the NIC '" + withoutControls(node.name) +
                 "' has a name that no device can have; names have letters, digits, '_', '.' and '-': "
                 "correct its <net name> in the file";
      if (node.port < 0)
        return "the NIC '" + withoutControls(node.name) + "' has port " + std::to_string(node.port) +
               "; ports begin with 1: correct its <net port> in the file";
      const Node* const card = cardOf(graph_, node);
      if (card != nullptr) nic.busid = lowerCase(card->busid);
      nic.numa = nic.busid.empty() ? -1 : numaOfNic(*machine_.paths, net);
      nic.mbps = std::llround(static_cast<double>(node.bandwidth) * 8000);
      host_.nics.push_back(std::move(nic));
    }
    std::stable_sort(host_.nics.begin(), host_.nics.end(), [this](const HostNic& a, const HostNic& b) {
      return graph_.of(NodeType::kNet, a.net).dev < graph_.of(NodeType::kNet, b.net).dev;
    });
    return "";
  }

  void readGpus() {
    const MachineExplanation explanation = explain(machine_);
    const gpu::GpuTopology vendors = gpuTopology(machine_);
    for (const GpuExplanation& explained : explanation.gpus) {
      if (explained.gpu < 0) continue;
      const Node& node = graph_.of(NodeType::kGpu, explained.gpu);
      if (node.host != kExportedHost) continue;
      const std::vector<int> ranks = ranksOnDeviceOf(graph_, explained.gpu);
      if (ranks.front() != node.rank) continue;
      if (ranks.size() > 1)
        host_.notes.push_back("GPU " + std::to_string(node.dev) + " has the ranks " + rangesText(ranks) +
                              ": it is listed once, with the NICs of rank " + std::to_string(node.rank));
      HostGpu gpu{
          .gpu = explained.gpu, .dev = node.dev, .local_ranks = ranks, .busid = lowerCase(node.busid)};
      gpu.kind = !node.gcn.empty() ? node.gcn : node.sm > 0 ? "sm_" + std::to_string(node.sm) : "";
      const int cpu = machine_.paths->localCpu(explained.gpu);
      gpu.numa = cpu < 0 ? -1 : graph_.of(NodeType::kCpu, cpu).numa;
      if (const gpu::Device* device = physicalGpu(vendors, graph_, explained.gpu); device != nullptr)
        gpu.model = gpuModelText(*device);
      for (const ChosenNic& chosen : explained.chosen) addNic(gpu, chosen);
      if (gpu.nics.empty())
        host_.notes.push_back("GPU " + std::to_string(gpu.dev) + " has no NIC" +
                              (explained.error.empty() ? "" : ": " + explained.error));
      host_.gpus.push_back(std::move(gpu));
    }
    const auto instances = std::count_if(vendors.gpus.begin(), vendors.gpus.end(),
                                         [](const gpu::Device& device) { return !gpu::isWhole(device); });
    if (instances > 0)
      host_.notes.push_back(counted(static_cast<int>(instances), "MIG instance") + " left out");
    std::stable_sort(host_.gpus.begin(), host_.gpus.end(),
                     [](const HostGpu& a, const HostGpu& b) { return a.dev < b.dev; });
  }

  // "" or what is wrong with the numbers of the GPUs, which are sorted.
  std::string wrongGpu() const {
    for (std::size_t i = 0; i < host_.gpus.size(); ++i) {
      const HostGpu& gpu = host_.gpus[i];
      const bool twice = i > 0 && host_.gpus[i - 1].dev == gpu.dev;
      if (gpu.dev < 0 || twice)
        return "the GPU at " + gpu.busid + " has the device number " + std::to_string(gpu.dev) +
               (twice ? ", as another one has" : "") + ": correct its <gpu dev> in the file";
    }
    return "";
  }

  // Launchers count local ranks by GPU. If several ranks share a GPU, only the model tells which.
  void countLocalRanks() {
    std::vector<int> all;
    for (const HostGpu& gpu : host_.gpus)
      all.insert(all.end(), gpu.local_ranks.begin(), gpu.local_ranks.end());
    std::sort(all.begin(), all.end());
    const bool shared = all.size() > host_.gpus.size();
    for (std::size_t i = 0; i < host_.gpus.size(); ++i) {
      std::vector<int>& ranks = host_.gpus[i].local_ranks;
      if (!shared) ranks = {static_cast<int>(i)};
      for (int& rank : ranks)
        if (shared) rank = static_cast<int>(std::lower_bound(all.begin(), all.end(), rank) - all.begin());
    }
  }

  void addNic(HostGpu& gpu, const ChosenNic& chosen) {
    const auto at = std::find_if(host_.nics.begin(), host_.nics.end(),
                                 [&](const HostNic& nic) { return nic.net == chosen.view.net; });
    if (at == host_.nics.end()) return;
    at->used = true;
    gpu.nics.push_back({.nic = static_cast<int>(at - host_.nics.begin()), .type = chosen.view.type});
  }

  void readLinks() {
    std::map<NodeIndex, std::size_t> place;
    for (std::size_t i = 0; i < host_.gpus.size(); ++i) place[deviceNode(i)] = i;
    std::vector<int> to_switch(host_.gpus.size());
    host_.links.assign(host_.gpus.size(), std::vector<int>(host_.gpus.size()));
    for (std::size_t from = 0; from < host_.gpus.size(); ++from) {
      const Node& device = graph_.node(deviceNode(from));
      for (const Link& link : device.links) {
        if (link.type != LinkType::kNvl) continue;
        const int count = std::max(1, nvlinkCount(device, link.bandwidth));
        if (graph_.node(link.to).type == NodeType::kNvs) to_switch[from] += count;
        if (const auto at = place.find(link.to); at != place.end()) host_.links[from][at->second] += count;
      }
    }
    for (std::size_t from = 0; from < to_switch.size(); ++from)
      for (std::size_t to = 0; to < to_switch.size(); ++to)
        if (from != to) host_.links[from][to] += std::min(to_switch[from], to_switch[to]);
    host_.switched = std::any_of(to_switch.begin(), to_switch.end(), [](int count) { return count > 0; });
  }

  NodeIndex deviceNode(std::size_t i) const {
    return deviceOf(graph_, graph_.at(NodeType::kGpu, host_.gpus[i].gpu));
  }

  void noteOtherHosts() {
    if (graph_.hosts() > 1)
      host_.notes.push_back("only the first host of " + std::to_string(graph_.hosts()) +
                            " is written: an export describes one host");
  }

  const Machine& machine_;
  const Graph& graph_;
  HostView host_;
};

}  // namespace

Outcome<HostView> hostView(const Machine& machine) { return HostReader(machine).read(); }

std::string originText(const Machine& machine, const HostView& host, const char* form) {
  return std::string("railwise topo export --for ") + form + ": " + withoutControls(machine.name) + ", " +
         counted(host.gpus.size(), "GPU") + ", " + counted(host.nics.size(), "NIC") + ", by the rules of " +
         rulesText(machine);
}

std::vector<NicPort> portsOfGpu(const HostView& host, const HostGpu& gpu) {
  std::vector<NicPort> ports;
  addPorts(host, gpu, ports);
  return ports;
}

std::vector<NicPort> portsOfAllGpus(const HostView& host) {
  std::vector<NicPort> ports;
  for (const HostGpu& gpu : host.gpus) addPorts(host, gpu, ports);
  return ports;
}

std::string ucxDevices(const std::vector<NicPort>& ports) {
  return joined(ports, ",", [](const NicPort& port) {
    return port.device + (port.port == 0 ? "" : ":" + std::to_string(port.port));
  });
}

std::string nothingToChoose(const Machine& machine, const HostView& host) {
  if (!portsOfAllGpus(host).empty()) return "";
  return machine.name + ": no GPU has a NIC, so there is nothing to choose; railwise explain says why";
}

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
