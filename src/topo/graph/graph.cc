#include "topo/graph/graph.h"

#include <algorithm>
#include <cstdlib>

#include "base/text/words.h"

namespace railwise::topo {
namespace {

constexpr std::array<const char*, kNodeTypes> kNodeNames = {"GPU", "PCI", "NVS", "CPU", "NIC",
                                                            "NET", "GIN", "RMA", "DEV", "CXB"};
constexpr std::pair<LinkType, const char*> kLinkNames[] = {{LinkType::kLoc, "LOC"}, {LinkType::kNvl, "NVL"},
                                                           {LinkType::kC2c, "C2C"}, {LinkType::kPci, "PCI"},
                                                           {LinkType::kSys, "SYS"}, {LinkType::kNet, "NET"}};
constexpr int kWordBits = 32;
constexpr int kCpuSetBits = 1024;  // CPU_SETSIZE

}  // namespace

const char* nodeTypeName(NodeType type) { return kNodeNames[static_cast<std::size_t>(type)]; }

const char* linkTypeName(LinkType type) { return nameIn(kLinkNames, type, "?"); }

int Graph::gpuOfRank(int rank) const {
  for (const NodeIndex gpu : of(NodeType::kGpu))
    if (node(gpu).rank == rank) return node(gpu).index;
  return -1;
}

int Graph::gpuOfDev(int host, int dev) const {
  for (const NodeIndex gpu : of(NodeType::kGpu))
    if (node(gpu).host == host && node(gpu).dev == dev) return node(gpu).index;
  return -1;
}

NodeIndex Graph::find(NodeType type, int64_t id) const {
  for (const NodeIndex i : of(type))
    if (node(i).id == id) return i;
  return kNoNode;
}

int Graph::indexOf(NodeType type, int64_t id) const {
  const NodeIndex found = find(type, id);
  return found == kNoNode ? -1 : node(found).index;
}

std::string Graph::label(NodeIndex i) const {
  const Node& n = node(i);
  std::string text = nodeTypeName(n.type);
  text += '/';
  if (n.type == NodeType::kGpu) return text + std::to_string(n.rank);
  if (n.host != 0) text += std::to_string(n.host) + "-";
  switch (n.type) {
    case NodeType::kCpu:
      return text + std::to_string(n.numa);
    case NodeType::kNet:
    case NodeType::kGin:
    case NodeType::kRma:
      return text + std::to_string(n.dev);
    case NodeType::kNvs:
      return text + "0";
    default:
      return text + (n.busid.empty() ? "0" : n.busid);
  }
}

Graph Graph::keeping(NodeType type, const std::vector<bool>& keep) const {
  Graph kept = *this;
  const auto& nodes = of(type);
  for (std::size_t i = nodes.size(); i-- > 0;)
    if (!keep[i]) kept.remove(nodes[i]);
  kept.finish();
  return kept;
}

NodeIndex Graph::add(NodeType type, int64_t id, int host) {
  Node made;
  made.type = type;
  made.id = id;
  made.host = host;
  made.index = static_cast<int>(of(type).size());
  nodes_.push_back(std::move(made));
  const auto i = static_cast<NodeIndex>(nodes_.size() - 1);
  by_type_[static_cast<std::size_t>(type)].push_back(i);
  return i;
}

void Graph::remove(NodeIndex gone) {
  nodes_.erase(nodes_.begin() + gone);
  for (Node& n : nodes_) {
    std::erase_if(n.links, [gone](const Link& link) { return link.to == gone; });
    for (Link& link : n.links)
      if (link.to > gone) --link.to;
    if (n.parent == gone) n.parent = kNoNode;
    if (n.parent > gone) --n.parent;
  }
  finish();
}

void Graph::finish() {
  for (auto& list : by_type_) list.clear();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    auto& list = by_type_[static_cast<std::size_t>(nodes_[i].type)];
    nodes_[i].index = static_cast<int>(list.size());
    list.push_back(static_cast<NodeIndex>(i));
  }
}

std::string cpuList(const std::string& affinity) {
  // As ncclStrToCpuset: the word with the highest CPUs comes first; strtoul with base 16 reads each word;
  // strtok skips empty words.
  std::vector<unsigned long> words;
  for (const std::string& word : fullPartsOf(affinity, ','))
    if (words.size() < kCpuSetBits / kWordBits) words.push_back(std::strtoul(word.c_str(), nullptr, 16));
  std::string text;
  int start = -1;
  const int bits = static_cast<int>(words.size()) * kWordBits;
  for (int cpu = 0; cpu <= bits; ++cpu) {
    const bool set =
        cpu < bits &&
        (words[words.size() - 1 - static_cast<std::size_t>(cpu / kWordBits)] >> (cpu % kWordBits) & 1) != 0;
    if (set && start < 0) start = cpu;
    if (set || start < 0) continue;
    if (!text.empty()) text += ',';
    text += std::to_string(start);
    if (cpu - 1 > start) text += "-" + std::to_string(cpu - 1);
    start = -1;
  }
  return text;
}

}  // namespace railwise::topo
