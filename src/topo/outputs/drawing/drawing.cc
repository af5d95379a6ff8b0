#include "topo/outputs/drawing/drawing.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace railwise::topo {
namespace {

bool isLeafOrSwitch(const Node& node) {
  return node.type == NodeType::kPci || node.type == NodeType::kNic || node.type == NodeType::kDev ||
         (node.type == NodeType::kGpu && node.parent == kNoNode);
}

class TreeBuilder {
 public:
  explicit TreeBuilder(const Graph& graph) : graph_(graph), seen_(graph.nodes().size(), false) {}

  std::vector<HostTree> build() {
    std::vector<HostTree> hosts;
    for (int host = 0; host < graph_.hosts(); ++host) {
      HostTree tree{.host = host};
      for (const NodeIndex cpu : graph_.of(NodeType::kCpu)) {
        if (graph_.node(cpu).host == host) tree.cpus.push_back({cpu, branches(cpu)});
      }
      const auto number = [&](const CpuTree& cpu) { return graph_.node(cpu.cpu).numa; };
      std::stable_sort(tree.cpus.begin(), tree.cpus.end(),
                       [&](const CpuTree& a, const CpuTree& b) { return number(a) < number(b); });
      hosts.push_back(std::move(tree));
    }
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (seen_[i] || !isLeafOrSwitch(node) || node.type == NodeType::kPci) continue;
      hosts[static_cast<std::size_t>(node.host)].loose.push_back(static_cast<NodeIndex>(i));
    }
    return hosts;
  }

 private:
  std::vector<Branch> branches(NodeIndex parent) {
    std::vector<Branch> found;
    for (const Link& link : graph_.node(parent).links) {
      if (link.type != LinkType::kPci || seen_[static_cast<std::size_t>(link.to)]) continue;
      if (!isLeafOrSwitch(graph_.node(link.to))) continue;
      seen_[static_cast<std::size_t>(link.to)] = true;
      found.push_back({link.to, link.bandwidth, {}});
    }
    for (Branch& branch : found) branch.children = branches(branch.node);
    std::stable_sort(found.begin(), found.end(),
                     [&](const Branch& a, const Branch& b) { return key(a) < key(b); });
    return found;
  }

  // Sort key: branches with a GPU come first, by rank; then NICs, by the number of their NET.
  std::pair<int, int> key(const Branch& branch) const {
    constexpr int kLast = std::numeric_limits<int>::max();
    const Node& node = graph_.node(branch.node);
    if (node.type == NodeType::kDev || node.type == NodeType::kGpu) {
      const auto gpus = gpusOn(graph_, branch.node);
      return {0, gpus.empty() ? kLast : graph_.node(gpus[0]).rank};
    }
    if (node.type == NodeType::kNic) {
      const auto nets = netsOn(graph_, branch.node);
      return {1, nets.empty() ? kLast : graph_.node(nets[0]).index};
    }
    std::pair<int, int> least = {2, kLast};
    for (const Branch& child : branch.children) least = std::min(least, key(child));
    return least;
  }

  const Graph& graph_;
  std::vector<bool> seen_;
};

}  // namespace

void addDrawing(Drawing& whole, Drawing part, double x, double y) {
  for (Frame& frame : part.frames) {
    frame.x += x, frame.y += y;
    whole.frames.push_back(std::move(frame));
  }
  for (Box& box : part.boxes) {
    box.x += x, box.y += y;
    whole.boxes.push_back(std::move(box));
  }
  for (Wire& wire : part.wires) {
    for (Point& point : wire.points) point.x += x, point.y += y;
    wire.label_x += x, wire.label_y += y;
    whole.wires.push_back(std::move(wire));
  }
  for (Caption& caption : part.captions) {
    caption.x += x, caption.y += y;
    whole.captions.push_back(std::move(caption));
  }
  whole.width = std::max(whole.width, x + part.width);
  whole.height = std::max(whole.height, y + part.height);
}

std::vector<HostTree> hostTrees(const Graph& graph) { return TreeBuilder(graph).build(); }

std::vector<NodeIndex> gpusOn(const Graph& graph, NodeIndex device) {
  if (graph.node(device).type == NodeType::kGpu) return {device};
  std::vector<NodeIndex> gpus;
  for (const NodeIndex gpu : graph.of(NodeType::kGpu)) {
    if (graph.node(gpu).parent == device) gpus.push_back(gpu);
  }
  return gpus;
}

std::vector<NodeIndex> netsOn(const Graph& graph, NodeIndex nic) {
  std::vector<NodeIndex> nets;
  for (const Link& link : graph.node(nic).links) {
    if (graph.node(link.to).type == NodeType::kNet) nets.push_back(link.to);
  }
  std::sort(nets.begin(), nets.end());
  return nets;
}

}  // namespace railwise::topo
