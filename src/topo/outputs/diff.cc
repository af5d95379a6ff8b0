#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "topo/explain/describe.h"
#include "topo/graph/graph.h"
#include "topo/outputs/outputs.h"
#include "topo/paths/policy.h"
#include "topo/search/search.h"
#include "topo/tuning/expect.h"

namespace railwise::topo {
namespace {

// Finds, for each device of one machine, the matching device of another machine.

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

struct LinkText {
  NodeIndex from;
  NodeIndex to;
  std::string text;  // "PCIe 48 GB/s"
};

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
  const NodeIndex twin = rightOf(left_.at(type, left));
  return twin == kNoNode ? -1 : right_.node(twin).index;
}

// Describes a device apart from its place: "0000:06:00.0, sm 70, GPUDirect". Equal texts mean equal devices.
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
    if (graph.node(i).type != NodeType::kDev) return i;
    const auto gpus = gpusOn(graph, i);
    return gpus.empty() ? i : gpus.front();
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

std::string pathText(const Path& path) {
  if (path.type == PathType::kDis) return "not connected";
  return std::string(pathTypeName(path.type)) + " " + gbText(path.bandwidth) + " GB/s, " +
         counted(path.hops, "hop");
}

std::string gdrModeText(const Outcome<GdrAnswer>& answer) {
  if (!answer.ok()) return "impossible";
  return answer->mode == GdrMode::kOff ? "off" : answer->mode == GdrMode::kOn ? "on" : "through PCIe";
}

std::string gdrText(const Paths& paths, int gpu, int net) {
  constexpr const char* kFlush[] = {"no flush", "flush", "C2C flush"};
  return "receive " + gdrModeText(checkGdr(paths, gpu, net, false)) + ", send " +
         gdrModeText(checkGdr(paths, gpu, net, true)) + ", " +
         kFlush[static_cast<int>(needFlush(paths, gpu, net).flush)];
}

std::string p2pText(const Paths& paths, int from, int to) {
  const auto answer = checkP2p(paths, from, to);
  if (!answer.ok()) return "impossible";
  std::string text = answer->allowed ? "on" : "off";
  if (answer->read) text += ", read";
  if (answer->intermediate_rank >= 0) text += ", through GPU " + std::to_string(answer->intermediate_rank);
  return text;
}

std::string proxyText(const Paths& paths, int gpu, int net) {
  const auto proxy = proxyRank(paths, gpu, net);
  if (!proxy.ok()) return "impossible";
  return *proxy == paths.graph().of(NodeType::kGpu, gpu).rank ? "direct"
                                                              : "through GPU " + std::to_string(*proxy);
}

class Differ {
 public:
  Differ(const Machine& left, const Machine& right)
      : left_(left), right_(right), match_(*left.graph, *right.graph) {}

  std::vector<Difference> whole() {
    for (const NodeType type : {NodeType::kCpu, NodeType::kPci, NodeType::kNvs, NodeType::kDev,
                                NodeType::kGpu, NodeType::kNic, NodeType::kNet}) {
      if (type == NodeType::kDev && (left_.graph->count(type) == 0 || right_.graph->count(type) == 0))
        continue;
      compareDevices(type);
    }
    compareNuma();
    compareLinks();
    comparePaths(NodeType::kGpu, NodeType::kGpu);
    comparePaths(NodeType::kGpu, NodeType::kNet);
    comparePaths(NodeType::kNet, NodeType::kGpu);
    compareNics();
    compareGdr();
    compareP2p();
    compareDomains();
    return std::move(found_);
  }

 private:
  void add(const char* kind, std::string what, std::string left, std::string right) {
    if (left != right) found_.push_back({kind, std::move(what), std::move(left), std::move(right)});
  }

  std::string pairName(NodeType from, int i, NodeType to, int j) const {
    return left_.graph->label(from, i) + " -> " + left_.graph->label(to, j);
  }

  void compareDevices(NodeType type) {
    for (const NodeIndex i : left_.graph->of(type)) {
      const NodeIndex twin = match_.rightOf(i);
      add("device", left_.graph->label(i), deviceText(*left_.graph, i),
          twin == kNoNode ? "" : deviceText(*right_.graph, twin));
    }
    for (const NodeIndex i : right_.graph->of(type)) {
      if (match_.leftOf(i) == kNoNode)
        add("device", right_.graph->label(i), "", deviceText(*right_.graph, i));
    }
  }

  void compareNuma() {
    for (const NodeType type : {NodeType::kGpu, NodeType::kNet}) {
      for (int i = 0; i < left_.graph->count(type); ++i) {
        const int twin = match_.rightIndex(type, i);
        if (twin >= 0)
          add("numa", left_.graph->label(type, i), numaOf(left_, type, i), numaOf(right_, type, twin));
      }
    }
  }

  static std::string numaOf(const Machine& machine, NodeType type, int index) {
    const int cpu = nextCpu(*machine.paths, type, index);
    return cpu < 0 ? "no NUMA node" : nodeName(*machine.graph, machine.graph->at(NodeType::kCpu, cpu));
  }

  // Compares only links between matched nodes. If one side lacks a device, the device's own difference covers
  // its links.
  void compareLinks() {
    std::map<std::pair<NodeIndex, NodeIndex>, std::pair<std::string, std::string>> links;
    const auto put = [](std::string& text, const std::string& more) {
      text += (text.empty() ? "" : " and ") + more;
    };
    for (const auto& link : linksOf(*left_.graph)) {
      if (match_.rightOf(link.from) != kNoNode && match_.rightOf(link.to) != kNoNode) {
        put(links[{link.from, link.to}].first, link.text);
      }
    }
    for (const auto& link : linksOf(*right_.graph)) {
      const NodeIndex from = match_.leftOf(link.from);
      const NodeIndex to = match_.leftOf(link.to);
      if (from != kNoNode && to != kNoNode) put(links[{from, to}].second, link.text);
    }
    for (const auto& [ends, texts] : links) {
      if (ends.first > ends.second && links.count({ends.second, ends.first}) != 0)
        continue;  // the matching pair reports it
      add("link", left_.graph->label(ends.first) + " - " + left_.graph->label(ends.second), texts.first,
          texts.second);
    }
  }

  template <typename Visit>
  void forPairs(NodeType from, NodeType to, const Visit& visit) {
    for (int i = 0; i < left_.graph->count(from); ++i) {
      for (int j = 0; j < left_.graph->count(to); ++j) {
        const int right_i = match_.rightIndex(from, i);
        const int right_j = match_.rightIndex(to, j);
        if ((from != to || i != j) && right_i >= 0 && right_j >= 0) visit(i, j, right_i, right_j);
      }
    }
  }

  void comparePaths(NodeType from, NodeType to) {
    forPairs(from, to, [&](int i, int j, int right_i, int right_j) {
      const Path& left = left_.paths->get(from, i, to, j);
      Path right = right_.paths->get(from, right_i, to, right_j);
      // Releases count hops in several ways, which changes nothing by itself.
      const bool alike = left.type == right.type && left.bandwidth == right.bandwidth;
      if (alike && left_.settings->nccl != right_.settings->nccl) right.hops = left.hops;
      add("path", pairName(from, i, to, j), pathText(left), pathText(right));
      if (from != NodeType::kGpu || to != NodeType::kNet) return;
      add("pxn", pairName(from, i, to, j), proxyText(*left_.paths, i, j),
          proxyText(*right_.paths, right_i, right_j));
    });
  }

  void compareGdr() {
    forPairs(NodeType::kGpu, NodeType::kNet, [&](int i, int j, int right_i, int right_j) {
      add("gpudirect", pairName(NodeType::kGpu, i, NodeType::kNet, j), gdrText(*left_.paths, i, j),
          gdrText(*right_.paths, right_i, right_j));
    });
  }

  void compareP2p() {
    forPairs(NodeType::kGpu, NodeType::kGpu, [&](int i, int j, int right_i, int right_j) {
      add("p2p", pairName(NodeType::kGpu, i, NodeType::kGpu, j), p2pText(*left_.paths, i, j),
          p2pText(*right_.paths, right_i, right_j));
    });
  }

  // The NICs that a rank uses, by channel, as its communicator sees them.
  static std::string nicsOf(const Machine& machine, int gpu) {
    const int rank = machine.graph->of(NodeType::kGpu, gpu).rank;
    for (const Domain& domain : machine.domains) {
      if (std::find(domain.ranks.begin(), domain.ranks.end(), rank) == domain.ranks.end()) continue;
      const auto nets = localNets(*domain.paths, domain.graph->gpuOfRank(rank));
      if (!nets.ok()) break;
      std::vector<std::string> names;
      for (const int net : *nets) names.push_back(netName(*domain.graph, net));
      return listText(names);
    }
    return "none";
  }

  void compareNics() {
    for (int gpu = 0; gpu < left_.graph->count(NodeType::kGpu); ++gpu) {
      const int twin = match_.rightIndex(NodeType::kGpu, gpu);
      if (twin < 0) continue;
      add("nic", left_.graph->label(NodeType::kGpu, gpu), nicsOf(left_, gpu), nicsOf(right_, twin));
    }
  }

  static std::string domainsOf(const Machine& machine) {
    std::vector<std::string> parts;
    for (const Domain& domain : machine.domains) parts.push_back("GPU " + rangesText(domain.ranks));
    return counted(static_cast<int>(parts.size()), "part") + ": " + listText(parts);
  }

  static std::string initText(const Machine& machine) {
    const std::string failure = initFailure(machine);
    return failure.empty() ? "succeeds" : "fails: " + failure;
  }

  // "16 channels of 24 GB/s, NVL between GPUs, PIX to NICs"; "": NCCL finds none.
  static std::string graphText(const CommunicatorGraphs& graphs, Algorithm algorithm) {
    const ChannelGraph& graph = graphs.of(algorithm);
    if (graph.channels.empty()) return "none";
    const float bandwidth = graphs.inter ? graph.bandwidth_inter : graph.bandwidth_intra;
    return counted(static_cast<int>(graph.channels.size()), "channel") + " of " + gbText(bandwidth) +
           " GB/s, " + pathTypeName(graph.type_intra) + " between GPUs" +
           (graphs.inter ? std::string(", ") + pathTypeName(graph.type_inter) + " to NICs" : "");
  }

  static tuning::Expectation expectationOf(const Machine& machine, const Domain& domain,
                                           const CommunicatorGraphs& graphs, tuning::Collective collective) {
    std::vector<std::size_t> sizes;
    for (std::size_t bytes = 1024; bytes <= std::size_t{8} << 30; bytes *= 4) sizes.push_back(bytes);
    return tuning::expectCollective(machine, domain, graphs, graphs.nodes, true, collective, sizes);
  }

  // "454.6 GB/s at 1 GiB"; "": no algorithm can do it.
  static std::string bandwidthText(const tuning::Expectation& expected) {
    const auto large = std::ranges::find(expected.sizes, std::size_t{1} << 30, &tuning::ExpectedSize::bytes);
    return large == expected.sizes.end() || !large->choice
               ? ""
               : formatText("%.1f GB/s at 1 GiB", large->bus_bandwidth);
  }

  // "Tree LL to 64 KiB, then NVLS Simple"
  static std::string choicesText(const tuning::Expectation& expected) {
    std::string text, last;
    std::size_t bytes = 0;
    for (const tuning::ExpectedSize& size : expected.sizes) {
      if (!size.choice) return "";
      const std::string choice =
          std::string(tuning::nameOf(size.choice->algorithm)) + " " + tuning::nameOf(size.choice->protocol);
      if (!last.empty() && choice != last) text += last + " to " + sizeText(bytes) + ", then ";
      last = choice;
      bytes = size.bytes;
    }
    return text + last;
  }

  // Not of AMD's GPUs: RCCL's search and its cost model are not known.
  void compareGraphs() {
    if (left_.graph->rccl() || right_.graph->rccl()) return;
    const auto left = searchMachine(left_, {});
    const auto right = searchMachine(right_, {});
    if (!left.ok() || !right.ok() || left_.domains.size() != right_.domains.size()) return;
    for (std::size_t i = 0; i < left_.domains.size(); ++i) {
      for (const int hosts : {1, 2}) {
        const auto& before = hosts == 1 ? (*left)[i].one_host : (*left)[i].two_hosts;
        const auto& after = hosts == 1 ? (*right)[i].one_host : (*right)[i].two_hosts;
        if (!before || !after) continue;
        const std::string where = ", " + counted(hosts, "host");
        for (std::size_t number = 0; number < kAlgorithms; ++number) {
          const auto which = static_cast<Algorithm>(number);
          add("graph", algorithmName(which) + where, graphText(*before, which), graphText(*after, which));
        }
        for (std::size_t number = 0; number < tuning::kCollectives; ++number) {
          const auto which = static_cast<tuning::Collective>(number);
          const auto left_expects = expectationOf(left_, left_.domains[i], *before, which);
          const auto right_expects = expectationOf(right_, right_.domains[i], *after, which);
          add("bandwidth", tuning::nameOf(which) + where, bandwidthText(left_expects),
              bandwidthText(right_expects));
          add("algorithm", tuning::nameOf(which) + where, choicesText(left_expects),
              choicesText(right_expects));
        }
      }
    }
  }

  void compareDomains() {
    add("init", "communicator", initText(left_), initText(right_));
    add("domain", "communicator", domainsOf(left_), domainsOf(right_));
    compareGraphs();
  }

  const Machine& left_;
  const Machine& right_;
  const DeviceMatch match_;
  std::vector<Difference> found_;
};

}  // namespace

std::vector<Difference> diff(const Machine& left, const Machine& right) {
  return Differ(left, right).whole();
}

std::string diffJson(const Machine& left, const Machine& right, const std::vector<Difference>& differences) {
  JsonWriter json;
  json.beginObject();
  json.key("schema").value("railwise-topology-diff").key("schema_version").value(1);
  json.key("left").value(left.name).key("right").value(right.name);
  json.key("equal").value(differences.empty()).key("same_file").value(sameFile(left, right));
  json.key("differences").inlineObjects(differences, [&](const Difference& difference) {
    json.key("kind").value(difference.kind).key("what").value(difference.what);
    json.key("left").value(difference.left).key("right").value(difference.right);
  });
  json.key("rules").inlineObjects(
      ruleChanges(left.settings->nccl, right.settings->nccl), [&](const RuleChange& change) {
        json.key(change.begins ? "since" : "until").value(ncclVersionName(change.release));
        json.key("rule").value(change.text);
      });
  json.endObject();
  return json.text();
}

namespace {

struct Kind {
  const char* name;
  const char* title;
};
constexpr Kind kKinds[] = {
    {"init", "NCCL's init"},
    {"device", "Devices"},
    {"numa", "NUMA node of a device"},
    {"link", "Links"},
    {"domain", "Parts that NCCL sees"},
    {"nic", "NIC of a GPU, channel by channel"},
    {"path", "Paths"},
    {"gpudirect", "GPUDirect RDMA"},
    {"p2p", "GPU to GPU directly (P2P)"},
    {"pxn", "PXN: sending through another GPU"},
    {"graph", "Channels that NCCL finds"},
    {"bandwidth", "Bus bandwidth that NCCL's cost model expects"},
    {"algorithm", "Algorithm and protocol that NCCL takes, by size"},
};

// Splits "GPU/12" into "GPU/" and 12. False: the id has no number, for example an address.
bool splitNumber(const std::string& id, std::string& stem, int& number) {
  std::size_t digits = id.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(id[digits - 1])) != 0) --digits;
  if (digits == id.size() || digits == 0 || id[digits - 1] != '/' || id.size() - digits > 6) return false;
  stem = id.substr(0, digits);
  number = std::stoi(id.substr(digits));
  return true;
}

// Joins several ids to "GPU/0..3, GPU/5": consecutive numbers become a range.
std::string idsText(const std::set<std::string>& ids) {
  std::map<std::string, std::vector<int>> numbers;
  std::vector<std::string> others;
  for (const std::string& id : ids) {
    std::string stem;
    int number = 0;
    if (splitNumber(id, stem, number)) {
      numbers[stem].push_back(number);
    } else {
      others.push_back(id);
    }
  }
  std::vector<std::string> parts;
  for (auto& [stem, list] : numbers) {
    std::sort(list.begin(), list.end());
    for (std::size_t i = 0; i < list.size();) {
      std::size_t last = i;
      while (last + 1 < list.size() && list[last + 1] == list[last] + 1) ++last;
      parts.push_back(stem + std::to_string(list[i]) + (last > i ? ".." + std::to_string(list[last]) : ""));
      i = last + 1;
    }
  }
  const std::size_t shown = 6;
  if (others.size() > shown) {
    const std::size_t more = others.size() - shown;
    others.resize(shown);
    others.push_back(std::to_string(more) + " more");
  }
  parts.insert(parts.end(), others.begin(), others.end());
  return joined(parts);
}

// All things whose text changed from `left` to `right`.
struct Group {
  std::string left;
  std::string right;
  std::vector<std::string> whats;
};

// Writes the pairs of a group. If every first id is paired with every second id, writes two lists. If any two
// of the ids are paired, writes one list. Otherwise lists the pairs.
std::string endsText(const Group& group) {
  std::set<std::string> from;
  std::set<std::string> to;
  std::string arrow;
  for (const std::string& what : group.whats) {
    std::size_t at = what.find(" -> ");
    arrow = " -> ";
    if (at == std::string::npos) at = what.find(" - "), arrow = " - ";
    from.insert(what.substr(0, at));
    if (at != std::string::npos) to.insert(what.substr(at + arrow.size()));
  }
  if (to.empty()) return idsText(from);
  const std::size_t count = std::set<std::string>(group.whats.begin(), group.whats.end()).size();
  if (count == from.size() * to.size()) return idsText(from) + arrow + idsText(to);
  std::set<std::string> both = from;
  both.insert(to.begin(), to.end());
  const std::size_t ordered = both.size() * (both.size() - 1);
  const bool clique = arrow == " -> " ? count == ordered : count * 2 == ordered;
  return clique ? "any two of " + idsText(both) : firstItems(group.whats, 6);
}

std::string groupText(const Group& group, bool pairs) {
  const auto count = static_cast<int>(group.whats.size());
  std::string text = "  " + endsText(group) + ": ";
  if (group.left.empty()) {
    text += "only on the right: " + group.right;
  } else if (group.right.empty()) {
    text += "only on the left: " + group.left;
  } else {
    text += group.left + " became " + group.right;
  }
  const bool lone = group.left.empty() || group.right.empty();
  if (count > 1 && !pairs && lone) text += ", and " + std::to_string(count - 1) + " more";
  if (count > 1 && pairs) text += " (" + std::to_string(count) + " pairs)";
  return text + "\n";
}

// Returns "GPU>NET" for "GPU/0 -> NET/1". Only pairs of equal types are in one group.
std::string typesOf(const std::string& what) {
  const auto typeAt = [&](std::size_t at) { return what.substr(at, what.find('/', at) - at); };
  std::size_t to = what.find(" -> ");
  if (to == std::string::npos) to = what.find(" - ");
  return typeAt(0) + (to == std::string::npos ? "" : ">" + typeAt(what.find_first_not_of(" ->", to)));
}

// Puts all devices that one side lacks into one group, whatever their texts are.
std::string sideText(const Difference& difference, const std::string& text) {
  const bool lone = difference.left.empty() || difference.right.empty();
  return lone && difference.kind == "device" && !text.empty() ? "lone" : text;
}

std::vector<Group> groupsOf(const std::vector<Difference>& differences, const std::string& kind) {
  std::vector<Group> groups;
  std::map<std::vector<std::string>, std::size_t> known;
  for (const Difference& difference : differences) {
    if (difference.kind != kind) continue;
    const std::vector<std::string> key = {typesOf(difference.what), sideText(difference, difference.left),
                                          sideText(difference, difference.right)};
    const auto [at, added] = known.emplace(key, groups.size());
    if (added) groups.push_back({difference.left, difference.right, {}});
    groups[at->second].whats.push_back(difference.what);
  }
  return groups;
}

// The rules of NCCL that differ between the machines' releases, each under the release that has it. "": none.
// `equal`: nothing differs between the machines.
std::string rulesChanged(const Machine& left, const Machine& right, bool equal) {
  const auto [older, newer] = std::minmax(left.settings->nccl, right.settings->nccl);
  std::string brought;
  std::string dropped;
  for (const RuleChange& change : ruleChanges(older, newer))
    (change.begins ? brought : dropped) += wrappedText(
        change.text, "    " + ncclVersionName(change.release) + (change.begins ? " brought: " : " dropped: "),
        "      ");
  if (brought.empty() && dropped.empty()) return "";
  const bool only_rules = left.name == right.name && left.settings->ib_hca == right.settings->ib_hca;
  std::string text = "\nNCCL's rules that differ between " + ncclVersionName(older) + " and " +
                     ncclVersionName(newer) + ": " +
                     (equal        ? "none matters here, since nothing differs"
                      : only_rules ? "some of them make the differences above"
                                   : "some of them may be why something above differs") +
                     "\n";
  if (!brought.empty()) text += "  only " + ncclVersionName(newer) + " has these:\n" + brought;
  if (!dropped.empty()) text += "  only " + ncclVersionName(older) + " has these:\n" + dropped;
  return text;
}

// An element of a file, by what identifies it and those above it: "/system/cpu 0/pci 0000:18:00.0".
using Elements = std::map<std::string, const XmlNode*>;

void addElements(const XmlNode& node, const std::string& above, Elements& elements) {
  constexpr const char* kIdentities[] = {"busid", "numaid", "name", "target", "rank"};
  const auto identity = std::find_if(std::begin(kIdentities), std::end(kIdentities),
                                     [&](const char* attribute) { return node.has(attribute); });
  std::string path =
      above + "/" + node.name + (identity == std::end(kIdentities) ? "" : " " + node.get(*identity));
  for (int twin = 2; !elements.emplace(path, &node).second; ++twin) path += "#" + std::to_string(twin);
  for (const XmlNode* child : node.children) addElements(*child, path, elements);
}

std::string lastOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string placeOf(const Machine& machine, const XmlNode& node) {
  return machine.xml->file + ":" + std::to_string(node.position.line);
}

// What `left` has and `right` lacks; of an element that lacks as a whole, not its children.
void addMissing(const Machine& left, const Elements& of_left, const Machine& right, const Elements& of_right,
                std::vector<std::string>& lines) {
  for (const auto& [path, node] : of_left) {
    const bool parent_too = node->parent != nullptr && of_right.count(path.substr(0, path.rfind('/'))) == 0;
    if (of_right.count(path) > 0 || parent_too) continue;
    lines.push_back(placeOf(left, *node) + ": " + path.substr(path.rfind('/') + 1) + " is not in " +
                    right.xml->file);
  }
}

void addAttributes(const std::string& where, const XmlNode& left, const XmlNode& right,
                   std::vector<std::string>& lines) {
  std::set<std::string> names;
  for (const XmlNode* node : {&left, &right})
    for (const XmlAttribute& attribute : node->attributes) names.insert(attribute.name);
  for (const std::string& name : names) {
    const auto textIn = [&](const XmlNode& node) {
      return node.has(name) ? "\"" + node.get(name) + "\"" : "nothing";
    };
    if (textIn(left) != textIn(right))
      lines.push_back(where + " " + name + ": " + textIn(left) + " became " + textIn(right));
  }
}

// The lines in which two topology files differ. "": they do not, or one machine is no file.
std::string linesChanged(const Machine& left, const Machine& right) {
  constexpr std::size_t kShown = 40;
  if (left.xml->file.empty() || right.xml->file.empty() || left.xml->file == right.xml->file) return "";
  if (left.xml->system() == nullptr || right.xml->system() == nullptr) return "";
  Elements of_left, of_right;
  addElements(*left.xml->system(), "", of_left);
  addElements(*right.xml->system(), "", of_right);
  std::vector<std::string> lines;
  for (const auto& [path, node] : of_left)
    if (const auto twin = of_right.find(path); twin != of_right.end())
      addAttributes(placeOf(left, *node) + ", " + placeOf(right, *twin->second) + ": " + lastOf(path), *node,
                    *twin->second, lines);
  addMissing(left, of_left, right, of_right, lines);
  addMissing(right, of_right, left, of_left, lines);
  std::string text = lines.empty() ? "" : "\nLines\n";
  for (std::size_t i = 0; i < std::min(lines.size(), kShown); ++i) text += "  " + lines[i] + "\n";
  if (lines.size() > kShown) text += "  and " + std::to_string(lines.size() - kShown) + " more\n";
  return text;
}

}  // namespace

bool sameFile(const Machine& left, const Machine& right) {
  return writeXml(*left.xml) == writeXml(*right.xml);
}

std::string diffText(const Machine& left, const Machine& right, const std::vector<Difference>& differences) {
  const auto nameOf = [&](const Machine& machine) {
    const std::string& nics = machine.settings->ib_hca;
    return machine.name + " (" + rulesText(machine) +
           (left.settings->ib_hca == right.settings->ib_hca ? ""
            : nics.empty()                                  ? ", all NICs"
                                                            : ", NCCL_IB_HCA=" + nics) +
           ")";
  };
  const std::string rules = rulesChanged(left, right, differences.empty());
  if (differences.empty())
    return "no difference between " + nameOf(left) + " and " + nameOf(right) +
           (sameFile(left, right) ? "" : ", but the files that topo show --format xml writes differ") + "\n" +
           linesChanged(left, right) + rules;
  std::vector<std::string> equal;
  std::string text = "left:  " + nameOf(left) + "\nright: " + nameOf(right) + "\n";
  for (const Kind& kind : kKinds) {
    const auto groups = groupsOf(differences, kind.name);
    if (groups.empty()) {
      equal.emplace_back(kind.title);
      continue;
    }
    text += std::string("\n") + kind.title + "\n";
    const std::string name = kind.name;
    const bool pairs =
        name == "path" || name == "gpudirect" || name == "p2p" || name == "pxn" || name == "link";
    for (const Group& group : groups) text += groupText(group, pairs);
  }
  text += wrappedText(joined(equal, "; "), "\nThe same: ", "  ");
  return text + linesChanged(left, right) + rules;
}

}  // namespace railwise::topo
