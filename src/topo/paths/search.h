// The breadth-first search that finds the paths, before anything is rerouted (ncclTopoSetPaths). Used by
// compute.cc only.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "topo/graph/constants.h"
#include "topo/paths/paths.h"

namespace railwise::topo {

// The breadth-first search from one base node: fills the paths of all nodes TO that base (ncclTopoSetPaths).
class PathFinder {
 public:
  PathFinder(Paths& paths, const Graph& graph, const Settings& settings)
      : paths_(paths),
        graph_(graph),
        old_rule_(settings.nccl == NcclVersion::k2_28),
        nvb_(settings.nvb_disable == 0),
        found_(graph.nodes().size()),
        touched_(graph.nodes().size()),
        queued_(graph.nodes().size()) {}

  // All bases of one type. Nodes of equal id share the place of the first, as in NCCL's look-ups.
  bool run(NodeType type) {
    const auto& bases = graph_.of(type);
    for (std::size_t i = 0; i < bases.size(); ++i) {
      const int place = graph_.indexOf(type, graph_.node(bases[i]).id);
      if (place != static_cast<int>(i)) continue;
      std::fill(found_.begin(), found_.end(), Path{});
      for (std::size_t j = i; j < bases.size(); ++j)
        if (graph_.node(bases[j]).id == graph_.node(bases[i]).id && !search(bases[j])) return false;
      store(type, place);
    }
    for (const NodeType from : kFrom) {
      auto& reached = paths_.reached_[Paths::slot(from)][Paths::slot(type)];
      for (const NodeIndex node : graph_.of(from))
        reached.push_back(touched_[static_cast<std::size_t>(node)]);
    }
    std::fill(touched_.begin(), touched_.end(), false);
    return true;
  }

  const std::string& error() const { return error_; }

 private:
  static constexpr std::array<NodeType, 4> kFrom = {NodeType::kGpu, NodeType::kNet, NodeType::kCpu,
                                                    NodeType::kDev};

  Path& at(NodeIndex node) { return found_[static_cast<std::size_t>(node)]; }

  bool search(NodeIndex base) {
    const Node& node = graph_.node(base);
    const bool is_gpu = node.type == NodeType::kGpu;
    base_device_ = is_gpu && !old_rule_ ? node.parent : base;
    longest_ = is_gpu && !old_rule_ ? 2 : 1;
    touched_[static_cast<std::size_t>(base)] = true;
    at(base) = {kLocalBandwidth, PathType::kLoc, 0, -1};
    current_.assign(1, base);
    while (!current_.empty()) {
      next_.clear();
      for (const NodeIndex from : current_)
        for (const Link& link : graph_.node(from).links)
          if (!follow(from, link)) return false;
      for (const NodeIndex queued : next_) queued_[static_cast<std::size_t>(queued)] = false;
      std::swap(current_, next_);
    }
    return true;
  }

  bool follow(NodeIndex from, const Link& link) {
    touched_[static_cast<std::size_t>(link.to)] = true;
    const Path path = at(from);
    if (blockedByGpu(from, path, link)) return true;
    const float bandwidth = std::min(path.bandwidth, link.bandwidth);
    const PathType type = stepType(from, path, link);
    if (!better(at(link.to), path, type, bandwidth)) return true;
    const Link* back = reverse(link.to, from, link.type);
    Path& remote = at(link.to);
    if (back == nullptr) {
      if (remote.first < 0) return failReverse(from, link);
      back = paths_.cells_[static_cast<std::size_t>(remote.first)].link;  // NCCL keeps the first step it had
    }
    paths_.cells_.push_back({back, path.first});
    remote = {bandwidth, type, static_cast<uint16_t>(path.hops + 1),
              static_cast<int32_t>(paths_.cells_.size() - 1)};
    if (!queued_[static_cast<std::size_t>(link.to)]) {
      queued_[static_cast<std::size_t>(link.to)] = true;
      next_.push_back(link.to);
    }
    return true;
  }

  // A path goes through a GPU only to its own rank, or as one NVLink hop to the next GPU (NVB).
  bool blockedByGpu(NodeIndex from, const Path& path, const Link& link) const {
    const Node& node = graph_.node(from);
    const Node& remote = graph_.node(link.to);
    if (from == base_device_ || node.type != (old_rule_ ? NodeType::kGpu : NodeType::kDev)) return false;
    if (!old_rule_ && link.type == LinkType::kLoc && remote.type == NodeType::kGpu) return false;
    return !nvb_ || link.type != LinkType::kNvl || remote.type != node.type || path.hops > longest_;
  }

  PathType stepType(NodeIndex from, const Path& path, const Link& link) const {
    const Node& node = graph_.node(from);
    const Node& remote = graph_.node(link.to);
    auto type = link.type == LinkType::kNet ? PathType::kLoc : static_cast<PathType>(link.type);
    if (node.type == NodeType::kPci && remote.type == NodeType::kPci) type = PathType::kPxb;
    if (link.type == LinkType::kPci && (node.type == NodeType::kCpu || remote.type == NodeType::kCpu))
      type = PathType::kPhb;
    const bool through_gpu = old_rule_ ? node.type == NodeType::kGpu && path.hops + 1 > 1
                                       : node.type == NodeType::kDev && path.hops == longest_;
    if (through_gpu && path.type == PathType::kNvl && type == PathType::kNvl) type = PathType::kNvb;
    return std::max(path.type, type);
  }

  bool better(const Path& known, const Path& path, PathType type, float bandwidth) const {
    if (old_rule_) return (known.bandwidth == 0 || known.hops > path.hops) && known.bandwidth < bandwidth;
    if (type != known.type) return type < known.type;
    if (known.bandwidth != bandwidth) return known.bandwidth < bandwidth;
    return known.hops > path.hops + 1;
  }

  const Link* reverse(NodeIndex from, NodeIndex to, LinkType type) const {
    for (const Link& link : graph_.node(from).links)
      if (link.to == to && link.type == type) return &link;
    return nullptr;
  }

  bool failReverse(NodeIndex from, const Link& link) {
    error_ = graph_.label(from) + " has a link of type " + linkTypeName(link.type) + " to " +
             graph_.label(link.to) +
             ", which has none back; NCCL fails its init: describe the link on both GPUs";
    return false;
  }

  void store(NodeType type, int place) {
    for (const NodeType from : kFrom) {
      const auto& nodes = graph_.of(from);
      for (std::size_t i = 0; i < nodes.size(); ++i)
        paths_.at(from, static_cast<int>(i), type, place) = at(nodes[i]);
    }
  }

  Paths& paths_;
  const Graph& graph_;
  const bool old_rule_;
  const bool nvb_;
  NodeIndex base_device_ = kNoNode;
  int longest_ = 1;
  std::vector<Path> found_;
  std::vector<bool> touched_;
  std::vector<bool> queued_;
  std::vector<NodeIndex> current_;
  std::vector<NodeIndex> next_;
  std::string error_;
};

}  // namespace railwise::topo
