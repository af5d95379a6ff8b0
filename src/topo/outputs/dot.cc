#include <cmath>
#include <cstdio>

#include "base/text/json.h"
#include "topo/explain/describe.h"
#include "topo/outputs/drawing/machine_tree.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo {
namespace {

// Quotes a string for the DOT language; \n remains a line break.
std::string inQuotes(const std::string& text) {
  std::string quote = "\"";
  for (const char c : cleanUtf8(text)) {
    if (c == '"' || c == '\\') quote += '\\';
    if (c == '\n') {
      quote += "\\n";
    } else {
      quote += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return quote + "\"";
}

struct Look {
  const char* shape;
  const char* fill;
};
Look lookOf(NodeType type) {
  switch (type) {
    case NodeType::kGpu:
    case NodeType::kDev:
      return {"box", "#e3f4e8"};
    case NodeType::kNet:
    case NodeType::kNic:
      return {"box", "#e4edfd"};
    case NodeType::kCpu:
      return {"box", "#c9d3dd"};
    case NodeType::kNvs:
      return {"box", "#bfe3cc"};
    default:
      return {"ellipse", "#eef2f5"};
  }
}

class DotWriter {
 public:
  explicit DotWriter(const Machine& machine) : machine_(machine), graph_(*machine.graph) {}

  std::string whole() {
    text_ = "graph topology {\n  label=" + inQuotes(machine_.name + ", GB/s in one direction") +
            ";\n  labelloc=t;\n  rankdir=TB;\n  fontname=\"sans-serif\";\n"
            "  node [fontname=\"sans-serif\", fontsize=11, style=filled];\n  edge [fontname=\"sans-serif\", "
            "fontsize=9];\n";
    for (const HostTree& host : hostTrees(graph_)) addHost(host);
    for (const NodeIndex i : graph_.of(NodeType::kNvs)) addNode(i, "NVSwitch", 1);
    addEdges();
    return text_ + "}\n";
  }

 private:
  std::string indent(int depth) const { return std::string(static_cast<std::size_t>(depth) * 2, ' '); }

  void openCluster(const std::string& name, const std::string& label, int depth) {
    text_ += indent(depth) + "subgraph " + inQuotes("cluster_" + name) + " {\n" + indent(depth + 1) +
             "label=" + inQuotes(label) + ";\n" + indent(depth + 1) + "style=rounded;\n" + indent(depth + 1) +
             "color=\"#8a9bac\";\n";
  }

  void addHost(const HostTree& host) {
    const bool several = graph_.hosts() > 1;
    if (several) openCluster("host" + std::to_string(host.host), "host " + std::to_string(host.host), 1);
    const int depth = several ? 2 : 1;
    for (const CpuTree& cpu : host.cpus) {
      const std::string list = cpuList(graph_.node(cpu.cpu).affinity);
      openCluster(graph_.label(cpu.cpu), nodeName(graph_, cpu.cpu), depth);
      addNode(cpu.cpu, "CPU" + (list.empty() ? "" : "\n" + list), depth + 1);
      for (const Branch& branch : cpu.children) addBranch(branch, depth + 1);
      text_ += indent(depth) + "}\n";
    }
    for (const NodeIndex node : host.loose) addBranch({node, 0, {}}, depth);
    if (several) text_ += indent(1) + "}\n";
  }

  void addBranch(const Branch& branch, int depth) {
    const Node& node = graph_.node(branch.node);
    std::string label = nodeName(graph_, branch.node);
    if (node.type == NodeType::kDev || node.type == NodeType::kGpu) label += "\n" + node.busid;
    if (node.type == NodeType::kNic) {
      for (const NodeIndex net : netsOn(graph_, branch.node)) {
        label += "\n" + netName(graph_, graph_.node(net).index) + ", " +
                 gbText(graph_.node(net).bandwidth * 8) + " Gb/s";
      }
    }
    addNode(branch.node, label, depth);
    for (const Branch& child : branch.children) addBranch(child, depth);
  }

  void addNode(NodeIndex i, const std::string& label, int depth) {
    const Look look = lookOf(graph_.node(i).type);
    text_ += indent(depth) + inQuotes(graph_.label(i)) + " [label=" + inQuotes(label) +
             ", shape=" + look.shape + ", fillcolor=" + inQuotes(look.fill) + "];\n";
  }

  // False: the node is not drawn itself. A rank is part of its device's node, and a port is part of its NIC's
  // node.
  bool drawn(NodeIndex i) const {
    const Node& node = graph_.node(i);
    if (node.type == NodeType::kGpu) return node.parent == kNoNode;
    return node.type != NodeType::kNet && node.type != NodeType::kGin && node.type != NodeType::kRma;
  }

  bool hasBack(NodeIndex from, const Link& link) const {
    for (const Link& back : graph_.node(link.to).links) {
      if (back.to == from && back.type == link.type) return true;
    }
    return false;
  }

  void addEdges() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const auto from = static_cast<NodeIndex>(i);
      for (const Link& link : graph_.node(from).links) {
        if (!drawn(from) || !drawn(link.to) || (from > link.to && hasBack(from, link))) continue;
        addEdge(from, link);
      }
    }
  }

  void addEdge(NodeIndex from, const Link& link) {
    const char* color = link.type == LinkType::kNvl   ? "#2f9e5f"
                        : link.type == LinkType::kC2c ? "#8b4fc1"
                        : link.type == LinkType::kSys ? "#b98211"
                                                      : "#8a9bac";
    char width[16];
    std::snprintf(width, sizeof width, "%.2f",
                  0.5 + 0.5 * std::log2(1 + static_cast<double>(link.bandwidth)));
    // The PCI links form the tree below the CPUs. Other links do not influence its shape.
    const bool tree = link.type == LinkType::kPci;
    const bool up = tree && isParent(link.to, from);
    const std::string ends = up ? inQuotes(graph_.label(link.to)) + " -- " + inQuotes(graph_.label(from))
                                : inQuotes(graph_.label(from)) + " -- " + inQuotes(graph_.label(link.to));
    text_ += "  " + ends + " [label=" + inQuotes(linkName(graph_, link) + " " + gbText(link.bandwidth)) +
             ", color=\"" + color + "\", penwidth=" + width +
             (tree || link.type == LinkType::kNvl ? "" : ", constraint=false") + "];\n";
  }

  // The last link of a switch leads to its parent.
  bool isParent(NodeIndex parent, NodeIndex child) const {
    const Node& node = graph_.node(child);
    if (node.type == NodeType::kCpu) return false;
    return node.type != NodeType::kPci || (!node.links.empty() && node.links.back().to == parent);
  }

  const Machine& machine_;
  const Graph& graph_;
  std::string text_;
};

}  // namespace

std::string dotText(const Machine& machine) { return DotWriter(machine).whole(); }

}  // namespace railwise::topo
