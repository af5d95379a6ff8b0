#include "topo/explain/describe.h"

#include <algorithm>
#include <cmath>

#include "base/text/printable.h"
#include "base/text/text_layout.h"
#include "topo/graph/constants.h"
#include "topo/paths/policy.h"

namespace railwise::topo {
namespace {

std::string ofHost(const Graph& graph, const Node& node) {
  return graph.hosts() > 1 ? " of host " + std::to_string(node.host) : "";
}

// Several NETs may have one name: the ports of one NIC, or devices in a file with mistakes.
bool isOneOfSeveral(const Graph& graph, const Node& net) {
  if (net.name.empty()) return false;
  const auto& nets = graph.of(NodeType::kNet);
  return std::any_of(nets.begin(), nets.end(), [&](NodeIndex i) {
    const Node& other = graph.node(i);
    return other.dev != net.dev && other.host == net.host && other.name == net.name;
  });
}

std::string deviceName(const Graph& graph, NodeIndex device) {
  std::vector<int> ranks;
  for (const NodeIndex gpu : gpusOn(graph, device)) ranks.push_back(graph.node(gpu).rank);
  return ranks.empty() ? "GPU at " + withoutControls(graph.node(device).busid) : "GPU " + rangesText(ranks);
}

}  // namespace

std::string rulesText(const Machine& machine) {
  if (machine.graph->rccl()) return "RCCL";
  return "NCCL " + ncclVersionName(machine.settings->nccl);
}

std::string noGpuText(const Machine& machine, int rank) {
  return machine.name + ": no GPU " + std::to_string(rank) + "; there are " +
         std::to_string(machine.graph->count(NodeType::kGpu)) + ", the first is 0";
}

const char* libraryName(const Graph& graph) { return graph.rccl() ? "RCCL" : "NCCL"; }

std::string meaningText(const Graph& graph, PathType type) {
  std::string text = pathTypeMeaning(type);
  if (!isAmd(graph)) return text;
  if (type == PathType::kNvl) return "xGMI directly";
  const std::string nvlink = "NVLink";
  for (std::size_t at = 0; (at = text.find(nvlink, at)) != std::string::npos;)
    text.replace(at, nvlink.size(), "xGMI");
  return text;
}

std::string gbText(float gigabytes) { return formatText("%.4g", static_cast<double>(gigabytes)); }

std::string gpuName(const Graph& graph, int gpu) {
  return "GPU " + std::to_string(graph.of(NodeType::kGpu, gpu).rank);
}

std::string netName(const Graph& graph, int net) {
  const Node& node = graph.of(NodeType::kNet, net);
  const std::string name = node.name.empty() ? "NIC " + std::to_string(node.dev) : withoutControls(node.name);
  return name + (isOneOfSeveral(graph, node) ? " (device " + std::to_string(node.dev) + ")" : "") +
         ofHost(graph, node);
}

std::string nodeName(const Graph& graph, NodeIndex i) {
  const Node& node = graph.node(i);
  switch (node.type) {
    case NodeType::kGpu:
      return gpuName(graph, node.index);
    case NodeType::kDev:
      return deviceName(graph, i);
    case NodeType::kPci:
      return "PCIe switch " + withoutControls(node.busid) + ofHost(graph, node);
    case NodeType::kNvs:
      return "NVSwitch";
    case NodeType::kCpu:
      return "NUMA node " + std::to_string(node.numa) + ofHost(graph, node);
    case NodeType::kNic:
      return node.busid.empty() ? "virtual NIC" : "NIC " + withoutControls(node.busid);
    case NodeType::kNet:
      return netName(graph, node.index);
    case NodeType::kCxb:
      return "C2C of the split GPU " + node.busid;
    case NodeType::kGin:
    case NodeType::kRma:
      break;
  }
  return graph.label(i);
}

std::string linkName(const Graph& graph, const Link& link) {
  switch (link.type) {
    case LinkType::kLoc:
      return "inside";
    case LinkType::kNvl:
      return isXgmi(graph) ? "xGMI" : "NVLink";
    case LinkType::kC2c:
      return "C2C";
    case LinkType::kPci:
      // No real PCIe link has this bandwidth. NCCL invents such a link for a NIC without a PCI address.
      return link.bandwidth == kLocalBandwidth ? "virtual" : "PCIe";
    case LinkType::kSys:
      return "between CPUs";
    case LinkType::kNet:
      return "port";
  }
  return "link";
}

int nvlinkCount(const Node& gpu, float bandwidth) {
  const float count = bandwidth / gpu.nvlink;
  const float whole = std::round(count);
  return whole >= 1 && std::fabs(count - whole) < 0.02F * whole ? static_cast<int>(whole) : 0;
}

bool isXgmi(const Graph& graph) {
  const auto& gpus = graph.of(NodeType::kGpu);
  return !gpus.empty() && !graph.node(gpus[0]).gcn.empty();
}

bool isAmd(const Graph& graph) { return graph.rccl() || isXgmi(graph); }

NodeIndex deviceOf(const Graph& graph, NodeIndex gpu) {
  const NodeIndex parent = graph.node(gpu).parent;
  return parent == kNoNode ? gpu : parent;
}

std::vector<int> ranksOnDeviceOf(const Graph& graph, int gpu) {
  const Node& own = graph.of(NodeType::kGpu, gpu);
  std::vector<int> ranks;
  for (const NodeIndex i : graph.of(NodeType::kGpu)) {
    const Node& other = graph.node(i);
    const bool same = own.parent != kNoNode ? other.parent == own.parent
                                            : other.host == own.host && other.busid == own.busid;
    if (same) ranks.push_back(other.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

bool isVirtual(const Graph& graph, int net) {
  const auto& links = graph.of(NodeType::kNet, net).links;
  return std::any_of(links.begin(), links.end(), [&](const Link& link) {
    return link.type == LinkType::kNet && graph.node(link.to).busid.empty();
  });
}

std::vector<NodeIndex> gpusOn(const Graph& graph, NodeIndex device) {
  if (graph.node(device).type == NodeType::kGpu) return {device};
  std::vector<NodeIndex> gpus;
  for (const NodeIndex gpu : graph.of(NodeType::kGpu)) {
    if (graph.node(gpu).parent == device) gpus.push_back(gpu);
  }
  return gpus;
}

std::vector<Step> stepsOf(const Paths& paths, const Path& path) {
  const Graph& graph = paths.graph();
  std::vector<Step> steps;
  for (const Link* link : paths.links(path)) {
    const NodeType to = graph.node(link->to).type;
    const bool own_device = link->type == LinkType::kLoc && (to == NodeType::kGpu || to == NodeType::kDev) &&
                            link->bandwidth == kLocalBandwidth;
    if (link->type == LinkType::kNet && to == NodeType::kNet && !steps.empty()) {
      steps.back().to = link->to;
      steps.back().to_name = nodeName(graph, link->to);
    } else if (link->type != LinkType::kNet && !own_device) {
      steps.push_back({linkName(graph, *link), link->bandwidth, link->to, nodeName(graph, link->to)});
    }
  }
  return steps;
}

std::string stepsText(const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps) {
    text += (text.empty() ? "--" : " --") + step.link + " " + gbText(step.bandwidth) + "--> " + step.to_name;
  }
  return text;
}

std::string countsText(const Graph& graph) {
  return counted(graph.count(NodeType::kGpu), "GPU") + ", " + counted(graph.count(NodeType::kNet), "NIC") +
         ", " + counted(graph.count(NodeType::kCpu), "NUMA node");
}

std::string gpuFacts(const Graph& graph, const Node& gpu) {
  return gpu.busid + (isAmd(graph) ? ", GPU number " : ", NVML index ") + std::to_string(gpu.dev) + ", " +
         (gpu.gcn.empty() ? "sm " + std::to_string(gpu.sm) : gpu.gcn);
}

int nextCpu(const Paths& paths, NodeType type, int index) {
  if (type == NodeType::kGpu) return paths.localCpu(index);
  const auto nearest = localNodes(paths, type, index, NodeType::kCpu);
  return nearest.empty() ? -1 : nearest[0];
}

std::string shortList(std::vector<std::string> names, std::size_t shown) {
  const std::size_t more = names.size() > shown ? names.size() - shown : 0;
  names.resize(names.size() - more);
  if (more > 0) names.push_back(std::to_string(more) + " more");
  return listText(names);
}

std::string rangesText(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace railwise::topo
