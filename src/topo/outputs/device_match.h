// Finds, for each device of one machine, the matching device of another machine. Internal to diff.
#pragma once

#include <string>
#include <vector>

#include "topo/graph/graph.h"

namespace railwise::topo {

class DeviceMatch {
 public:
  DeviceMatch(const Graph& left, const Graph& right);

  NodeIndex rightOf(NodeIndex left) const { return to_right_[static_cast<std::size_t>(left)]; }
  NodeIndex leftOf(NodeIndex right) const { return to_left_[static_cast<std::size_t>(right)]; }
  // `left` is an index among the left machine's nodes of `type`. Returns the index of the matching node on
  // the right, or -1.
  int rightIndex(NodeType type, int left) const;

 private:
  void match(NodeType type, std::string (*key)(const Graph&, const Node&));

  const Graph& left_;
  const Graph& right_;
  std::vector<NodeIndex> to_right_;
  std::vector<NodeIndex> to_left_;
};

// Describes a device apart from its place: "0000:06:00.0, sm 70, GPUDirect". Equal texts mean equal devices.
std::string deviceText(const Graph& graph, NodeIndex node);

struct LinkText {
  NodeIndex from;
  NodeIndex to;
  std::string text;  // "PCIe 48 GB/s"
};
std::vector<LinkText> linksOf(const Graph& graph);

}  // namespace railwise::topo
