#include "topo/explain/gpu_topology.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/text/words.h"
#include "topo/explain/describe.h"

namespace railwise::topo {
namespace {

class Completer {
 public:
  explicit Completer(const Machine& machine) : machine_(machine), graph_(*machine.graph) {}

  gpu::GpuTopology complete() {
    takeAnswers();
    for (int gpu = 0; gpu < graph_.count(NodeType::kGpu); ++gpu) addGpu(gpu);
    for (const auto& [index, gpu] : in_model_) addLinks(index, gpu);
    addPcieLinks();
    for (const auto& [index, gpu] : in_model_) addNics(index, gpu);
    return std::move(topology_);
  }

 private:
  // Answers about other GPUs than the model's do not count (readSysfs() says so in a remark).
  void takeAnswers() {
    if (machine_.gpu_answers == nullptr) return;
    topology_ = *machine_.gpu_answers;
    topology_.nics.clear();  // the model's follow
    for (gpu::Device& device : topology_.gpus) device.rank = -1;
    for (int gpu = 0; gpu < graph_.count(NodeType::kGpu); ++gpu)
      if (find(node(gpu)) != nullptr) return;
    topology_.gpus.clear();
    topology_.links.clear();
    topology_.peers.clear();
  }

  const Node& node(int gpu) const { return graph_.of(NodeType::kGpu, gpu); }

  gpu::Device* find(const Node& node) {
    if (node.host != graph_.localHost()) return nullptr;
    const auto at =
        std::find_if(topology_.gpus.begin(), topology_.gpus.end(), [&](const gpu::Device& device) {
          return gpu::isWhole(device) && !device.busid.empty() && device.busid == node.busid;
        });
    return at == topology_.gpus.end() ? nullptr : &*at;
  }

  void addGpu(int gpu) {
    const Node& node = this->node(gpu);
    if (ranksOnDeviceOf(graph_, gpu).front() != node.rank) return;
    gpu::Device* device = find(node);
    if (device == nullptr) {
      device = &topology_.gpus.emplace_back();
      device->index = static_cast<int>(topology_.gpus.size()) - 1;
      device->vendor = isAmd(graph_) ? gpu::Vendor::kAmd : gpu::Vendor::kNvidia;
      device->vendor_index = node.dev;
      device->busid = node.busid;
    }
    device->rank = node.rank;
    const bool nvidia = device->vendor == gpu::Vendor::kNvidia;
    if (device->sm == 0 && nvidia) device->sm = node.sm;
    if (device->architecture.empty())
      device->architecture =
          nvidia ? std::to_string(node.sm / 10) + "." + std::to_string(node.sm % 10) : node.gcn;
    const int cpu = machine_.paths->localCpu(gpu);
    if (device->numa < 0 && cpu >= 0) device->numa = graph_.of(NodeType::kCpu, cpu).numa;
    in_model_.emplace_back(device->index, gpu);
    index_of_device_[deviceOf(graph_, graph_.at(NodeType::kGpu, gpu))] = device->index;
  }

  void addLinks(int index, int gpu) {
    const bool told = std::any_of(topology_.links.begin(), topology_.links.end(),
                                  [index = index](const gpu::Link& link) { return link.from == index; });
    if (told) return;
    const NodeIndex device = deviceOf(graph_, graph_.at(NodeType::kGpu, gpu));
    for (const Link& edge : graph_.node(device).links) {
      if (edge.type != LinkType::kNvl && edge.type != LinkType::kC2c) continue;
      const Node& other = graph_.node(edge.to);
      gpu::Link link;
      link.from = index;
      link.gb_per_s = static_cast<double>(edge.bandwidth);
      if (const auto at = index_of_device_.find(edge.to); at != index_of_device_.end()) link.to = at->second;
      link.to_busid = other.busid;
      describe(link, edge, graph_.node(device), other);
      topology_.links.push_back(std::move(link));
    }
  }

  void describe(gpu::Link& link, const topo::Link& edge, const Node& from, const Node& to) const {
    if (edge.type == LinkType::kC2c) {
      link.kind = gpu::LinkKind::kC2c;
      link.latency = gpu::LatencyClass::kPackage;
      return;
    }
    link.width = nvlinkCount(from, edge.bandwidth);
    const bool switched = to.type == NodeType::kNvs;
    link.kind = isAmd(graph_) ? gpu::LinkKind::kXgmi
                : switched    ? gpu::LinkKind::kNvswitch
                              : gpu::LinkKind::kNvlink;
    link.latency = switched ? gpu::LatencyClass::kSwitched : gpu::LatencyClass::kDirect;
  }

  // Of GPUs that no other link joins.
  void addPcieLinks() {
    std::vector<std::pair<int, int>> joined;
    std::vector<bool> switched(topology_.gpus.size());
    for (const gpu::Link& link : topology_.links) {
      if (link.to >= 0) joined.emplace_back(link.from, link.to);
      if (link.kind == gpu::LinkKind::kNvswitch) switched[static_cast<std::size_t>(link.from)] = true;
    }
    std::sort(joined.begin(), joined.end());
    for (const auto& [from, from_gpu] : in_model_) {
      for (const auto& [to, to_gpu] : in_model_) {
        if (from == to || node(from_gpu).host != node(to_gpu).host) continue;
        const bool by_switch =
            switched[static_cast<std::size_t>(from)] && switched[static_cast<std::size_t>(to)];
        if (by_switch || std::binary_search(joined.begin(), joined.end(), std::pair(from, to))) continue;
        const Path& path = machine_.paths->get(NodeType::kGpu, from_gpu, NodeType::kGpu, to_gpu);
        // A path by another GPU (NVB) is no link; its bandwidth is not that of PCIe.
        if (path.type < PathType::kPix || path.type > PathType::kSys || path.bandwidth <= 0) continue;
        gpu::Link link;
        link.from = from;
        link.to = to;
        link.to_busid = topology_.gpus[static_cast<std::size_t>(to)].busid;
        link.gb_per_s = static_cast<double>(path.bandwidth);
        topology_.links.push_back(std::move(link));
      }
    }
  }

  void addNics(int index, int gpu) {
    for (const NearNic& near : nearNics(*machine_.paths, gpu)) {
      topology::GpuNic nic;
      nic.gpu = index;
      nic.name = netName(graph_, near.net);
      nic.type = static_cast<topology::PathType>(near.type);
      nic.gb_per_s = near.gb_per_s;
      topology_.nics.push_back(std::move(nic));
    }
  }

  const Machine& machine_;
  const Graph& graph_;
  gpu::GpuTopology topology_;
  std::vector<std::pair<int, int>> in_model_;  // index of a device, and of its GPU in the graph
  std::map<NodeIndex, int> index_of_device_;   // by the node of the physical device
};

}  // namespace

gpu::GpuTopology gpuTopology(const Machine& machine) { return Completer(machine).complete(); }

const gpu::Device* physicalGpu(const gpu::GpuTopology& topology, const Graph& graph, int gpu) {
  const int rank = ranksOnDeviceOf(graph, gpu).front();
  const auto at = std::find_if(topology.gpus.begin(), topology.gpus.end(),
                               [rank](const gpu::Device& device) { return device.rank == rank; });
  return at == topology.gpus.end() ? nullptr : &*at;
}

std::string gpuModelText(const gpu::Device& device) {
  if (!gpu::isWhole(device)) return device.partition;
  return device.model + (device.partition.empty() ? "" : " " + device.partition);
}

std::string memoryText(uint64_t bytes) {
  return bytes == 0 ? "-" : std::to_string(std::llround(static_cast<double>(bytes) / (1U << 30U))) + " GiB";
}

std::string stateText(const gpu::Device& device) {
  const auto clamped = [](uint64_t count) {
    return static_cast<int>(std::min<uint64_t>(count, std::numeric_limits<int>::max()));
  };
  const gpu::Health& health = device.health;
  std::vector<std::string> states;
  if (health.ecc_uncorrected.value_or(0) > 0)
    states.push_back(counted(clamped(*health.ecc_uncorrected), "ECC error"));
  if (health.link_errors.value_or(0) > 0)
    states.push_back(counted(clamped(*health.link_errors), "link error"));
  if (health.throttled.value_or(false))
    states.push_back("throttled" +
                     (health.throttle_reason.empty() ? "" : " (" + health.throttle_reason + ")"));
  if (device.processes.value_or(0) > 0) states.push_back("in use");
  if (!device.fabric_state.empty() && device.fabric_state != "completed")
    states.push_back("NVLink fabric " + device.fabric_state);
  if (states.empty()) return health.ecc_uncorrected || health.throttled || device.processes ? "ok" : "-";
  return joined(states);
}

std::vector<NearNic> nearNics(const Paths& paths, int gpu) {
  std::vector<NearNic> nics;
  const Graph& graph = paths.graph();
  const int host = graph.of(NodeType::kGpu, gpu).host;
  for (int net = 0; net < graph.count(NodeType::kNet); ++net) {
    if (graph.of(NodeType::kNet, net).host != host) continue;
    const Path& path = paths.get(NodeType::kGpu, gpu, NodeType::kNet, net);
    if (path.type >= PathType::kNet || path.bandwidth <= 0) continue;
    nics.push_back({net, path.type, static_cast<double>(path.bandwidth)});
  }
  std::stable_sort(nics.begin(), nics.end(), [](const NearNic& a, const NearNic& b) {
    return std::tuple(a.type, -a.gb_per_s) < std::tuple(b.type, -b.gb_per_s);
  });
  return nics;
}

}  // namespace railwise::topo
