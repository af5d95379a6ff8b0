#include "topo/outputs/device_match.h"

#include <map>

#include "topo/explain/describe.h"

namespace railwise::topo {
namespace {

std::string onHost(const Node& node, const std::string& key) { return std::to_string(node.host) + "/" + key; }

// Keys of properties that cannot change come first: the address or the device's name. Other devices are
// matched by number.
std::string byAddress(const Graph&, const Node& node) {
  switch (node.type) {
    case NodeType::kCpu:
      return onHost(node, std::to_string(node.numa));
    case NodeType::kNvs:
      return "nvs";
    case NodeType::kNet:
      return node.name.empty() ? "" : onHost(node, node.name + ":" + std::to_string(node.port));
    case NodeType::kGpu:
      return onHost(node, node.busid + "#" + std::to_string(node.rank));
    default:
      return node.busid.empty() ? onHost(node, "virtual") : onHost(node, node.busid);
  }
}

std::string byPlace(const Graph&, const Node& node) {
  return node.type == NodeType::kGpu ? onHost(node, node.busid) : "";
}

std::string byNumber(const Graph&, const Node& node) {
  if (node.type == NodeType::kGpu) return std::to_string(node.rank);
  return node.type == NodeType::kNet ? onHost(node, std::to_string(node.dev)) : "";
}

}  // namespace

DeviceMatch::DeviceMatch(const Graph& left, const Graph& right)
    : left_(left),
      right_(right),
      to_right_(left.nodes().size(), kNoNode),
      to_left_(right.nodes().size(), kNoNode) {
  for (int type = 0; type < kNodeTypes; ++type) {
    for (const auto key : {byAddress, byPlace, byNumber}) match(static_cast<NodeType>(type), key);
  }
}

void DeviceMatch::match(NodeType type, std::string (*key)(const Graph&, const Node&)) {
  // Unmatched nodes on the right; equal keys keep the order of the nodes.
  std::multimap<std::string, NodeIndex> free;
  for (const NodeIndex i : right_.of(type)) {
    if (leftOf(i) == kNoNode) free.emplace(key(right_, right_.node(i)), i);
  }
  for (const NodeIndex i : left_.of(type)) {
    const std::string wanted = key(left_, left_.node(i));
    const auto found = free.lower_bound(wanted);
    if (wanted.empty() || rightOf(i) != kNoNode || found == free.end() || found->first != wanted) continue;
    to_right_[static_cast<std::size_t>(i)] = found->second;
    to_left_[static_cast<std::size_t>(found->second)] = i;
    free.erase(found);
  }
}

int DeviceMatch::rightIndex(NodeType type, int left) const {
  const NodeIndex twin = rightOf(left_.of(type)[static_cast<std::size_t>(left)]);
  return twin == kNoNode ? -1 : right_.node(twin).index;
}

std::string deviceText(const Graph& graph, NodeIndex i) {
  const Node& node = graph.node(i);
  switch (node.type) {
    case NodeType::kCpu:
      return "NUMA node, CPUs " + (cpuList(node.affinity).empty() ? "none" : cpuList(node.affinity));
    case NodeType::kNvs:
      return "NVSwitch";
    case NodeType::kGpu:
      return node.busid + ", NVML index " + std::to_string(node.dev) + ", rank " + std::to_string(node.rank) +
             (node.gcn.empty() ? ", sm " + std::to_string(node.sm) : ", " + node.gcn) +
             (node.gdr != 0 ? ", GPUDirect" : ", no GPUDirect");
    case NodeType::kNet:
      return (node.name.empty() ? "unnamed" : node.name) + ", device " + std::to_string(node.dev) + ", " +
             gbText(node.bandwidth * 8) + " Gb/s" + (node.gdr != 0 ? ", GPUDirect" : ", no GPUDirect");
    default:
      return node.busid.empty() ? "virtual" : node.busid;
  }
}

std::vector<LinkText> linksOf(const Graph& graph) {
  std::vector<LinkText> links;
  // NCCL 2.28 has no node for the physical GPU, so a device is compared as its first rank.
  const auto end = [&](NodeIndex i) {
    const int gpu = graph.node(i).type == NodeType::kDev ? gpuOn(graph, i) : -1;
    return gpu < 0 ? i : graph.of(NodeType::kGpu)[static_cast<std::size_t>(gpu)];
  };
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const Link& link : graph.nodes()[i].links) {
      const NodeIndex from = end(static_cast<NodeIndex>(i));
      const NodeIndex to = end(link.to);
      const bool inside = link.type == LinkType::kLoc && graph.node(to).type == NodeType::kGpu &&
                          graph.node(from).type == NodeType::kGpu && graph.node(to).parent != kNoNode &&
                          graph.node(to).parent == graph.node(from).parent;
      if (inside) continue;
      links.push_back({from, to, linkName(graph, link) + " " + gbText(link.bandwidth) + " GB/s"});
    }
  }
  return links;
}

}  // namespace railwise::topo
