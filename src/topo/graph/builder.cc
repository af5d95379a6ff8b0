#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "base/pci.h"
#include "topo/document/xml.h"
#include "topo/graph/constants.h"
#include "topo/graph/graph.h"
#include "topo/settings.h"

namespace railwise::topo {
namespace {

// What NCCL does to the PCI tree of a graph after all nodes exist: it merges the two levels of Broadcom
// switches, and it puts the link to the parent last in every node. Both steps change NCCL's arrays in a way
// that can lose links. This class models that too, because NCCL's answers for such a machine, or its failing
// init, result from it. Used by builder.cc only; one thread at a time.

class PciTree {
 public:
  // `file` is for messages. `gen5`: NCCL also knows Broadcom's Gen5 switches.
  PciTree(Graph& graph, const std::string& file, bool gen5) : graph_(graph), file_(file), gen5_(gen5) {}

  // Does what ncclTopoFlattenBcmSwitches does. False: see error().
  bool flattenSwitches();
  // Does what ncclTopoSortSystem does; call it after flattenSwitches(). False: NCCL's init would fail or NCCL
  // would crash; see error().
  bool sortLinks();
  const Error& error() const { return error_; }

 private:
  // A link that NCCL removed from a node's array of links. NCCL only shortens the array, so the entry stays
  // behind the end until another link overwrites it. In NCCL the entry is a pointer to a place in the array
  // of all nodes of a type, so `place` may hold another node by now.
  struct Leftover {
    NodeType type;
    int place;
    Link link;
  };

  Node& at(NodeIndex i) { return graph_.mutableNodes()[static_cast<std::size_t>(i)]; }
  bool flattenSwitch(NodeIndex top, int generation);
  void moveLinks(NodeIndex sub, NodeIndex top);
  void takeOut(NodeIndex node, std::size_t link);
  void removeSwitch(NodeIndex gone);
  std::vector<Leftover>& leftovers(NodeIndex node);
  Leftover leftoverOf(const Link& link) { return {at(link.to).type, at(link.to).index, link}; }
  bool sortBelow(NodeIndex node, NodeIndex up);
  bool moveLast(NodeIndex node, NodeIndex up);
  bool moveLastAmongLeftovers(NodeIndex node, NodeIndex up);

  Graph& graph_;
  const std::string& file_;
  const bool gen5_;
  std::vector<std::vector<Leftover>> leftovers_;  // by NodeIndex
  Error error_;
};

// ncclTopoFlattenBcmSwitches. Broadcom's Gen4 and Gen5 switches appear as two levels of switches, but carry
// full bandwidth between them.
bool PciTree::flattenSwitches() {
  for (int s = 0; s < graph_.count(NodeType::kPci); ++s) {
    const NodeIndex top = graph_.at(NodeType::kPci, s);
    const int generation = broadcomGeneration(at(top).pci_device, 0);
    if (generation == 0 || (generation == 5 && !gen5_)) continue;
    if (!flattenSwitch(top, generation)) return false;
    s = -1;
  }
  return true;
}

bool PciTree::flattenSwitch(NodeIndex top, int generation) {
  std::vector<int64_t> subs;
  for (std::size_t i = 0; i < at(top).links.size();) {
    const Node& sub = at(at(top).links[i].to);
    if (sub.type != NodeType::kPci || broadcomGeneration(sub.pci_device, 1) != generation) {
      ++i;
      continue;
    }
    subs.push_back(sub.id);
    takeOut(top, i);
  }
  for (const int64_t id : subs) {
    const NodeIndex sub = graph_.find(NodeType::kPci, id);
    if (sub == kNoNode || sub == top) {
      error_.text = file_ + ": two PCIe switches have the same busid " + at(top).busid;
      return false;
    }
    moveLinks(sub, top);
    // NCCL continues with the node that is now at the same place in its array. If the inner switch was before
    // the outer one, that is a different node.
    const int place = at(top).index;
    removeSwitch(sub);
    if (place >= graph_.count(NodeType::kPci)) return true;
    top = graph_.at(NodeType::kPci, place);
  }
  at(top).pci_device |= 0xffff;  // so that this switch is not flattened again
  return true;
}

void PciTree::moveLinks(NodeIndex sub, NodeIndex top) {
  for (const Link& link : at(sub).links) {
    if (link.to == top) continue;
    at(top).links.push_back(link);
    auto& left = leftovers(top);
    if (!left.empty()) left.erase(left.begin());
    for (Link& back : at(link.to).links) {
      if (back.to != sub) continue;
      back.to = top;
      break;
    }
  }
}

std::vector<PciTree::Leftover>& PciTree::leftovers(NodeIndex node) {
  leftovers_.resize(graph_.nodes().size());
  return leftovers_[static_cast<std::size_t>(node)];
}

// NCCL moves the links that follow by one place, so the last link is there twice: in its new place and behind
// the end.
void PciTree::takeOut(NodeIndex node, std::size_t i) {
  auto& links = at(node).links;
  auto& left = leftovers(node);
  left.insert(left.begin(), leftoverOf(links.back()));
  links.erase(links.begin() + static_cast<std::ptrdiff_t>(i));
}

void PciTree::removeSwitch(NodeIndex gone) {
  for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
    const auto node = static_cast<NodeIndex>(n);
    for (std::size_t i = 0; node != gone && i < at(node).links.size();) {
      if (at(node).links[i].to == gone) {
        takeOut(node, i);
      } else {
        ++i;
      }
    }
  }
  leftovers(gone).clear();
  leftovers_.erase(leftovers_.begin() + gone);
  graph_.remove(gone);
}

// ncclTopoSort: puts the link to the parent last in every node of the PCI tree.
bool PciTree::sortBelow(NodeIndex node, NodeIndex up) {
  if (up != kNoNode && !(leftovers(node).empty() ? moveLast(node, up) : moveLastAmongLeftovers(node, up))) {
    error_.text = file_ + ": NCCL loses the links of the PCIe switch " + at(node).busid +
                  " when it merges the two levels of a Broadcom switch, and fails its init or crashes: leave "
                  "the inner switches without devices out of the file";
    return false;
  }
  for (std::size_t i = 0; i < at(node).links.size(); ++i) {
    const Link link = at(node).links[i];
    if (link.type == LinkType::kPci && link.to != up && !sortBelow(link.to, node)) return false;
  }
  return true;
}

bool PciTree::moveLast(NodeIndex node, NodeIndex up) {
  auto& links = at(node).links;
  const auto way_up =
      std::find_if(links.begin(), links.end(), [up](const Link& link) { return link.to == up; });
  if (way_up == links.end()) return false;
  std::rotate(way_up, way_up + 1, links.end());
  return true;
}

// NCCL looks for the empty place behind the array and does not use the number of links. So the link to the
// parent ends up behind the leftovers, and leftovers become links of the node. They lead to the nodes that
// are now at their places.
bool PciTree::moveLastAmongLeftovers(NodeIndex node, NodeIndex up) {
  std::vector<Leftover> all;
  for (const Link& link : at(node).links) all.push_back(leftoverOf(link));
  const auto& left = leftovers(node);
  all.insert(all.end(), left.begin(), left.end());
  const auto way_up = std::find_if(all.begin(), all.end(), [&](const Leftover& entry) {
    return entry.type == at(up).type && entry.place == at(up).index;
  });
  if (way_up == all.end()) return false;
  std::rotate(way_up, way_up + 1, all.end());
  for (std::size_t i = 0; i < at(node).links.size(); ++i) {
    const auto& places = graph_.of(all[i].type);
    if (all[i].place >= static_cast<int>(places.size())) return false;
    at(node).links[i] = all[i].link;
    at(node).links[i].to = places[static_cast<std::size_t>(all[i].place)];
  }
  return true;
}

bool PciTree::sortLinks() {
  for (const NodeIndex cpu : graph_.of(NodeType::kCpu))
    if (!sortBelow(cpu, kNoNode)) return false;
  return true;
}

// Makes the graph of a document. A member that returns bool returns false once error_ is set. One thread at a
// time.
class Builder {
 public:
  Builder(const XmlDocument& document, const Settings& settings)
      : document_(document),
        settings_(settings),
        devs_(settings.nccl.has(NcclRule::kDeviceNodes)),
        parts_(settings.nccl.has(NcclRule::kPartitions)) {}

  Outcome<Graph> build() {
    const XmlNode* system = document_.system();
    if (system == nullptr) return Error{document_.file + ": no <system> in this topology"};
    for (const XmlNode* cpu : system->children)
      if (cpu->name == "cpu" && !addCpu(*cpu)) return error_;
    if (host_hashes_.empty())
      return Error{where(document_, system->position) +
                   ": no <cpu> in <system>; NCCL needs at least one NUMA node"};
    graph_.setRccl(document_.version == 2 && !settings_.xgmi_as_nvlink);
    graph_.setHosts(static_cast<int>(host_hashes_.size()), 0);
    if (!addOtherLinks(*system)) return error_;
    PciTree tree(graph_, document_.file, settings_.nccl.has(NcclRule::kBroadcomGen5));
    if (!tree.flattenSwitches()) return tree.error();
    if (!connectCpus()) return error_;
    if (!tree.sortLinks()) return tree.error();
    graph_.finish();
    return std::move(graph_);
  }

 private:
  // --- NCCL's functions to create, look up and connect nodes, and to read attributes ---

  static constexpr int kMaxNodesPerType = 640;   // NCCL_TOPO_MAX_NODES
  static constexpr std::size_t kMaxLinks = 576;  // NCCL_TOPO_MAX_LINKS
  static constexpr int kMaxParts = 2;            // NCCL_TOPO_MLOPART_DEV_MAX
  static constexpr int64_t kPartMask = 0x3;      // NCCL_TOPO_MLOPART_MASK
  static constexpr int64_t kLocalIdMask = 0x00ffffffffffffff;

  static int64_t makeId(int host, int64_t local) {
    return static_cast<int64_t>(static_cast<uint64_t>(host) << 56 |
                                static_cast<uint64_t>(local & kLocalIdMask));
  }
  static int toInt(const std::string& text) {
    return static_cast<int>(std::strtol(text.c_str(), nullptr, 0));
  }

  Node& at(NodeIndex i) { return graph_.mutableNodes()[static_cast<std::size_t>(i)]; }

  bool fail(const XmlNode& node, const std::string& what) {
    error_.text = where(document_, node.position) + ": " + what;
    return false;
  }

  bool missing(const XmlNode& node, const char* attribute) {
    const std::string* busid = node.find("busid");
    // What a processor tells of itself NCCL adds on the machine.
    const bool told = node.name == "cpu" && std::string_view(attribute) != "numaid";
    const char* const why =
        told ? "; NCCL takes it from the machine that it runs on, and a file alone needs it: add "
             : "; NCCL fails its init without it: add ";
    return fail(node, "<" + node.name + (busid != nullptr ? " busid=\"" + *busid + "\"" : "") + "> has no " +
                          attribute + why + attribute + "=\"...\"");
  }

  bool readText(const XmlNode& node, const char* attribute, std::string& value) {
    const std::string* text = node.find(attribute);
    if (text == nullptr) return missing(node, attribute);
    value = *text;
    return true;
  }

  bool readInt(const XmlNode& node, const char* attribute, int& value) {
    const std::string* text = node.find(attribute);
    if (text == nullptr) return missing(node, attribute);
    value = toInt(*text);
    return true;
  }

  // ncclTopoCreateNode.
  NodeIndex create(const XmlNode& from, NodeType type, int64_t id, int host) {
    if (graph_.count(type) == kMaxNodesPerType) {
      fail(from, std::string("more than 640 nodes of type ") + nodeTypeName(type) + ": NCCL's limit");
      return kNoNode;
    }
    return graph_.add(type, id, host);
  }

  // ncclTopoConnectNodes: adds a link in one direction. A second link of the same type to the same node adds
  // its bandwidth to the first link. Links are kept sorted by bandwidth.
  bool connect(const XmlNode& from, NodeIndex a, NodeIndex b, LinkType type, float bandwidth) {
    auto& links = at(a).links;
    std::size_t i = 0;
    while (i < links.size() && (links[i].to != b || links[i].type != type)) ++i;
    if (i == kMaxLinks) return fail(from, "more than 576 links at " + graph_.label(a) + ": NCCL's limit");
    if (i == links.size()) links.push_back({type, 0, b});
    links[i].bandwidth += bandwidth;
    const Link moved = links[i];
    for (; i > 0 && links[i - 1].bandwidth < moved.bandwidth; --i) links[i] = links[i - 1];
    links[i] = moved;
    return true;
  }

  bool connectBoth(const XmlNode& from, NodeIndex a, NodeIndex b, LinkType type, float bandwidth) {
    return connect(from, a, b, type, bandwidth) && connect(from, b, a, type, bandwidth);
  }

  int hostOf(const XmlNode& cpu) {  // ncclGetSystemId
    const std::string* text = cpu.find("host_hash");
    const uint64_t hash = text == nullptr ? 0 : std::strtoull(text->c_str(), nullptr, 16);
    for (std::size_t i = 0; i < host_hashes_.size(); ++i)
      if (host_hashes_[i] == hash) return static_cast<int>(i);
    host_hashes_.push_back(hash);
    return static_cast<int>(host_hashes_.size()) - 1;
  }

  bool checkPartBits(const XmlNode& xml, int64_t busid) {
    if (!parts_ || (busid & kPartMask) == 0) return true;
    return fail(xml,
                "the last two bits of this GPU's busid are not 0; NCCL keeps its partition number there");
  }

  bool partitionedId(const XmlNode& gpu, int64_t busid, int64_t& id) {
    if (!checkPartBits(gpu, busid)) return false;
    id = busid;
    const int part = partOf(gpu);
    if (part == -1 || settings_.topo_split_mlopart == 0) return true;
    id = busid | ((static_cast<int64_t>(part) << 1 | 1) & kPartMask);
    return true;
  }

  // Which part of a split GPU a <gpu> is. -1: the GPU is whole.
  int partOf(const XmlNode& gpu) const { return parts_ ? intOf(gpu, "mlopart", -1) : -1; }

  std::vector<NodeIndex> partsOf(int64_t id) const {  // ncclTopoGetDevNodes
    std::vector<NodeIndex> parts;
    for (const NodeIndex dev : graph_.of(deviceType()))
      if (parts_ ? (graph_.node(dev).id & ~kPartMask) == (id & ~kPartMask) : graph_.node(dev).id == id)
        parts.push_back(dev);
    return parts;
  }

  NodeType deviceType() const { return devs_ ? NodeType::kDev : NodeType::kGpu; }

  // --- Links that are not part of the PCI tree: NVLink (xGMI), C2C, Broadcom's links between switches, and
  // links between CPUs. For each kind, NCCL walks the whole document after all nodes exist, and so does this
  // class.

  // Finds the device node that belongs to a <gpu> of this pci. It is an error if there is none, because the
  // GPU's NVLinks would have no end.
  bool deviceOf(const XmlNode& gpu, const std::string* busid, int host, NodeIndex& device) {
    int64_t id = busid == nullptr ? 0 : busIdToNumber(*busid);
    if (devs_) {
      int sm = 0;
      if (!partitionedId(gpu, id, id) || !readInt(gpu, "sm", sm)) return false;
    }
    device = graph_.find(deviceType(), makeId(host, id));
    if (device != kNoNode) return true;
    return fail(
        gpu,
        "the GPU at " + (busid == nullptr ? std::string("?") : *busid) +
            " has links but is not in the graph: its pci is below one with a nic child (whose pci children "
            "NCCL drops), or the gpu has no rank");
  }

  // If several ranks share one device, only the first rank adds the links (ncclTopoXmlIsPrimaryGpuForDev).
  bool isPrimary(const XmlNode& gpu) const {
    if (!devs_) return true;
    const int part = partOf(gpu);
    for (const XmlNode* sibling : gpu.parent->children) {
      if (sibling->name != "gpu") continue;
      if (sibling == &gpu) break;
      if (partOf(*sibling) == part || settings_.topo_split_mlopart == 0) return false;
    }
    return true;
  }

  // Adds the link that an element describes. `busid`: of the nearest element above that has one; null: none.
  using AddLink = bool (Builder::*)(const XmlNode& link, const std::string* busid, int host);

  bool walk(const XmlNode& node, const char* name, const std::string* busid, int host, AddLink add) {
    if (node.name == name) return (this->*add)(node, busid, host);
    if (node.name == "cpu") host = hostOf(node);
    const std::string* own = node.find("busid");
    for (const XmlNode* child : node.children)
      if (!walk(*child, name, own != nullptr ? own : busid, host, add)) return false;
    return true;
  }

  bool addOtherLinks(const XmlNode& system) {
    const bool c2c = settings_.nccl.has(NcclRule::kC2cLinks);
    return walk(system, document_.version == 1 ? "nvlink" : "xgmi", nullptr, 0, &Builder::addNvlink) &&
           (!c2c || walk(system, "c2c", nullptr, 0, &Builder::addC2cLink)) &&
           walk(system, "pcilink", nullptr, 0, &Builder::addPciLink);
  }

  bool addNvlink(const XmlNode& link, const std::string* busid, int host) {
    const XmlNode& gpu = *link.parent;
    if (!isPrimary(gpu)) return true;
    NodeIndex device = kNoNode;
    if (!deviceOf(gpu, busid, host, device)) return false;
    int count = 0;
    std::string target_class;
    if (!readInt(link, "count", count) || !readText(link, "tclass", target_class)) return false;
    const Node& from = at(device);
    const auto parts = static_cast<float>(devs_ ? partsOf(from.id).size() : 1);
    const float all = static_cast<float>(count) * from.nvlink;
    switch (classType(target_class, document_.version)) {
      case NodeType::kGpu:
        return addGpuNvlink(link, device, host, all, parts);
      case NodeType::kCpu: {
        const NodeIndex cpu = cpuAbove(device, kNoNode);
        return cpu == kNoNode || connectBoth(link, device, cpu, LinkType::kNvl, all / parts);
      }
      default:
        return connectBoth(link, device, nvswitch(), LinkType::kNvl, all / parts);
    }
  }

  // Adds the link in one direction only: the other GPU's <nvlink> adds the other direction.
  bool addGpuNvlink(const XmlNode& link, NodeIndex device, int host, float all, float parts) {
    std::string target;
    if (!readText(link, "target", target)) return false;
    const auto remotes = partsOf(makeId(host, busIdToNumber(target)));
    for (const NodeIndex remote : remotes) {
      const float bandwidth = all / static_cast<float>(remotes.size()) / parts;
      if (!connect(link, device, remote, LinkType::kNvl, bandwidth)) return false;
      if (!devs_) break;
    }
    return true;
  }

  float linkBandwidth(const Node& gpu) const {
    const bool nvlink = document_.version == 1 || settings_.xgmi_as_nvlink;
    return nvlink ? nvlinkBandwidth(gpu.sm, settings_.nccl) : xgmiBandwidth(gpu.gcn);
  }

  NodeIndex nvswitch() {
    return graph_.count(NodeType::kNvs) == 0 ? graph_.add(NodeType::kNvs, 0, 0)
                                             : graph_.of(NodeType::kNvs)[0];
  }

  // findLocalCpu: searches up the PCI tree.
  NodeIndex cpuAbove(NodeIndex node, NodeIndex from) {
    if (at(node).type == NodeType::kCpu) return node;
    for (const Link& link : at(node).links) {
      if (link.type != LinkType::kPci || link.to == from) continue;
      if (at(link.to).type != NodeType::kPci && at(link.to).type != NodeType::kCpu) continue;
      const NodeIndex cpu = cpuAbove(link.to, node);
      if (cpu != kNoNode) return cpu;
    }
    return kNoNode;
  }

  bool addC2cLink(const XmlNode& link, const std::string* busid, int host) {
    if (!isPrimary(*link.parent)) return true;
    NodeIndex device = kNoNode;
    int count = 0;
    int megabytes = 0;
    if (!deviceOf(*link.parent, busid, host, device) || !readInt(link, "count", count) ||
        !readInt(link, "bw", megabytes))
      return false;
    const auto bandwidth = static_cast<float>(
        static_cast<int>(static_cast<unsigned>(megabytes) * static_cast<unsigned>(count)) / 1000.0);
    const LinkType c2c = settings_.nccl.has(NcclRule::kC2cLinkType) ? LinkType::kC2c : LinkType::kNvl;
    const NodeIndex cpu = cpuAbove(device, kNoNode);
    if (cpu == kNoNode) return true;
    if (!devs_ || partsOf(at(device).id).size() <= 1) return connectBoth(link, device, cpu, c2c, bandwidth);
    // The parts of a split GPU share the link, so they are connected through a node of its own, which limits
    // their total bandwidth.
    const int64_t id = at(device).id & ~kPartMask;
    NodeIndex bridge = graph_.find(NodeType::kCxb, id);
    if (bridge == kNoNode) {
      bridge = create(link, NodeType::kCxb, id, host);
      if (bridge == kNoNode || !connectBoth(link, bridge, cpu, LinkType::kC2c, bandwidth)) return false;
      at(bridge).busid = at(device).busid;
    }
    return connectBoth(link, device, bridge, LinkType::kC2c, bandwidth);
  }

  bool addPciLink(const XmlNode& link, const std::string* busid, int host) {
    const std::string from = busid == nullptr ? "" : *busid;
    const NodeIndex pci = graph_.find(NodeType::kPci, makeId(host, busIdToNumber(from)));
    if (pci == kNoNode) return fail(link, "<pcilink> in " + from + ", which is not a switch in the graph");
    std::string target;
    if (!readText(link, "target", target)) return false;
    const NodeIndex remote = graph_.find(NodeType::kPci, makeId(host, busIdToNumber(target)));
    return remote == kNoNode || connect(link, pci, remote, LinkType::kLoc, kLocalBandwidth);
  }

  bool connectCpus() {
    const XmlNode& system = *document_.system();
    for (const NodeIndex a : graph_.of(NodeType::kCpu))
      for (const NodeIndex b : graph_.of(NodeType::kCpu)) {
        if (a == b || at(a).host != at(b).host) continue;
        if (!connect(system, a, b, LinkType::kSys, interCpuBandwidth(at(a), settings_.nccl))) return false;
      }
    return true;
  }

  // --- CPUs ---

  bool readCpuModel(const XmlNode& xml, Node& cpu) {
    std::string text;
    if (!readText(xml, "arch", text)) return false;
    cpu.arch = cpuArch(text);
    if (cpu.arch != CpuArch::kX86) return true;
    if (!readText(xml, "vendor", text)) return false;
    cpu.vendor = cpuVendor(text);
    const bool amd = cpu.vendor == CpuVendor::kAmd && settings_.nccl.has(NcclRule::kAmdGenerations);
    if (!amd && cpu.vendor != CpuVendor::kIntel && cpu.vendor != CpuVendor::kZhaoxin) return true;
    int family = 0;
    int model = 0;
    if (!readInt(xml, "familyid", family) || (!amd && !readInt(xml, "modelid", model))) return false;
    cpu.model = cpuModel(cpu.vendor, family, model, settings_.nccl);
    return true;
  }

  bool addCpu(const XmlNode& xml) {
    int numa = 0;
    if (!readInt(xml, "numaid", numa)) return false;
    const int host = hostOf(xml);
    const NodeIndex cpu = create(xml, NodeType::kCpu, makeId(host, numa), host);
    if (cpu == kNoNode) return false;
    at(cpu).numa = numa;
    at(cpu).affinity = xml.get("affinity");
    if (!readCpuModel(xml, at(cpu))) return false;
    for (const XmlNode* child : xml.children) {
      if (child->name == "pci" && !addPci(*child, cpu, host)) return false;
      if (child->name == "nic" && !addVirtualNic(*child, cpu, host)) return false;
    }
    return true;
  }

  // Adds a <nic> that is directly in a <cpu>. The node's id does not contain the NUMA node, so all such NICs
  // of a host share the node of the first one.
  bool addVirtualNic(const XmlNode& xml, NodeIndex cpu, int host) {
    const int64_t id = makeId(host, 0);
    NodeIndex nic = graph_.find(NodeType::kNic, id);
    if (nic == kNoNode) {
      nic = create(xml, NodeType::kNic, id, host);
      if (nic == kNoNode || !connectBoth(xml, cpu, nic, LinkType::kPci, kLocalBandwidth)) return false;
    }
    return addNets(xml, nic, host);
  }

  // --- PCI devices ---

  bool addPci(const XmlNode& xml, NodeIndex parent, int host) {
    std::string text;
    if (!readText(xml, "class", text)) return false;
    const NodeType type = classType(text, document_.version);
    if (!readText(xml, "busid", text)) return false;
    const int64_t busid = busIdToNumber(text);
    // NCCL before 2.30.7 reads the link only of a pci that becomes a node.
    std::optional<float> bandwidth;
    if (parts_ && !readLink(xml, bandwidth)) return false;

    bool is_gpu = false;
    for (const XmlNode* gpu : xml.children) {
      if (gpu->name != "gpu") continue;
      if (!gpu->has("rank")) return true;  // NCCL drops it, with everything in this pci
      if (!bandwidth && !readLink(xml, bandwidth)) return false;
      if (!(devs_ ? addGpu(xml, *gpu, parent, host, busid, *bandwidth)
                  : addPlainGpu(xml, *gpu, parent, host, busid, *bandwidth)))
        return false;
      is_gpu = true;
      if (!devs_) break;  // NCCL 2.28 looks only at the first <gpu>
    }
    const XmlNode* nic = xml.child("nic");
    if (nic != nullptr) return addNic(xml, *nic, parent, host, busid, bandwidth);
    if (type == NodeType::kPci && !(is_gpu && !devs_)) return addSwitch(xml, parent, host, busid, bandwidth);
    return true;
  }

  bool readLink(const XmlNode& xml, std::optional<float>& bandwidth) {
    int width = 0;
    std::string speed;
    if (!readInt(xml, "link_width", width) || !readText(xml, "link_speed", speed)) return false;
    bandwidth = pciBandwidth(speed, width);
    return true;
  }

  void describePci(const XmlNode& xml, Node& node) {
    node.busid = xml.get("busid");
    node.link_speed = xml.get("link_speed");
    node.link_width = toInt(xml.get("link_width"));
    uint64_t device = 0;
    for (const char* attribute : {"vendor", "device", "subsystem_vendor", "subsystem_device"})
      device = (device << 16) + static_cast<uint64_t>(std::strtol(xml.get(attribute).c_str(), nullptr, 0));
    node.pci_device = device;
  }

  bool addSwitch(const XmlNode& xml, NodeIndex parent, int host, int64_t busid,
                 std::optional<float> bandwidth) {
    const NodeIndex node = create(xml, NodeType::kPci, makeId(host, busid), host);
    if (node == kNoNode) return false;
    describePci(xml, at(node));
    for (const XmlNode* child : xml.children)
      if (child->name != "pcilink" && !addPci(*child, node, host)) return false;
    if (!bandwidth && !readLink(xml, bandwidth)) return false;
    return connectBoth(xml, node, parent, LinkType::kPci, *bandwidth);
  }

  // A pci that has a nic child is a NIC, whatever its class. Its pci children are dropped.
  bool addNic(const XmlNode& xml, const XmlNode& nic, NodeIndex parent, int host, int64_t busid,
              std::optional<float> bandwidth) {
    const int64_t id = makeId(host, busid);
    NodeIndex node = graph_.find(NodeType::kNic, id);
    const bool known = node != kNoNode;
    if (!known) node = create(xml, NodeType::kNic, id, host);
    if (node == kNoNode) return false;
    if (!known) describePci(xml, at(node));
    if (!addNets(nic, node, host)) return false;
    if (known) return true;
    if (!bandwidth && !readLink(xml, bandwidth)) return false;
    return connectBoth(xml, node, parent, LinkType::kPci, *bandwidth);
  }

  bool addNets(const XmlNode& nic, NodeIndex node, int host) {
    for (const XmlNode* net : nic.children) {
      if (net->name != "net" || !net->has("dev")) continue;
      const bool gins = settings_.nccl.has(NcclRule::kGinDevices);
      if ((!gins || intOf(*net, "net", 1) != 0) && !addNet(*net, NodeType::kNet, node, host)) return false;
      if (gins && intOf(*net, "gin", 0) != 0 && !addNet(*net, NodeType::kGin, node, host)) return false;
      if (parts_ && intOf(*net, "rma", 0) != 0 && !addNet(*net, NodeType::kRma, node, host)) return false;
    }
    return true;
  }

  bool addNet(const XmlNode& xml, NodeType type, NodeIndex nic, int host) {
    const int dev = intOf(xml, "dev", 0);
    const int64_t id = makeId(host, dev);
    const NodeIndex index = create(xml, type, id, host);
    if (index == kNoNode) return false;
    Node& net = at(index);
    net.dev = dev;
    net.name = xml.get("name");
    const std::string* guid = xml.find("guid");
    net.has_guid = guid != nullptr;
    net.guid = guid != nullptr ? std::strtoull(guid->c_str(), nullptr, 16) : static_cast<uint64_t>(id);
    int speed_mbps = intOf(xml, "speed", 0);
    if (speed_mbps <= 0) speed_mbps = kDefaultNetMbps;
    net.bandwidth = static_cast<float>(speed_mbps / 8000.0);
    net.latency = std::strtof(xml.get("latency").c_str(), nullptr);
    net.port = intOf(xml, "port", 0);
    net.pci_device = at(nic).pci_device;
    net.gdr = intOf(xml, "gdr", 0);
    net.max_comms = intOf(xml, "maxconn", kMaxChannels);
    net.coll = intOf(xml, "coll", 0);
    net.rail = intOf(xml, "rail", -1);
    net.plane = intOf(xml, "plane", -1);
    return connectBoth(xml, nic, index, LinkType::kNet, net.bandwidth);
  }

  // --- GPUs ---

  bool describeGpu(const XmlNode& xml, Node& gpu) {
    gpu.gcn = gcnName(xml.get("gcn"));
    gpu.mlopart = partOf(xml);
    if (!readInt(xml, "rank", gpu.rank) || !readInt(xml, "sm", gpu.sm) || !readInt(xml, "dev", gpu.dev) ||
        !readInt(xml, "gdr", gpu.gdr))
      return false;
    gpu.nvlink = linkBandwidth(gpu);
    return true;
  }

  bool addPlainGpu(const XmlNode& pci, const XmlNode& xml, NodeIndex parent, int host, int64_t busid,
                   float bandwidth) {
    const NodeIndex gpu = create(xml, NodeType::kGpu, makeId(host, busid), host);
    if (gpu == kNoNode || !describeGpu(xml, at(gpu))) return false;
    describePci(pci, at(gpu));
    // If the pci also has a nic child, NCCL 2.28 overwrites the node, and the GPU stays unconnected.
    return pci.child("nic") != nullptr || connectBoth(xml, gpu, parent, LinkType::kPci, bandwidth);
  }

  NodeIndex addDev(const XmlNode& pci, const XmlNode& xml, NodeIndex parent, int host, int64_t id,
                   float bandwidth) {
    const NodeIndex dev = create(xml, NodeType::kDev, makeId(host, id), host);
    if (dev == kNoNode) return kNoNode;
    describePci(pci, at(dev));
    at(dev).gcn = gcnName(xml.get("gcn"));
    at(dev).mlopart = partOf(xml);
    if (!readInt(xml, "sm", at(dev).sm) || !readInt(xml, "dev", at(dev).dev)) return kNoNode;
    at(dev).nvlink = linkBandwidth(at(dev));
    // If the pci also has a nic child, NCCL before 2.30.7 overwrites the node, and the GPU stays unconnected.
    const bool overwritten = !parts_ && pci.child("nic") != nullptr;
    if (!overwritten && !connectBoth(xml, dev, parent, LinkType::kPci, bandwidth)) return kNoNode;
    const auto parts = partsOf(at(dev).id);
    if (static_cast<int>(parts.size()) > kMaxParts) {
      fail(xml, "more than two partitions of one GPU");
      return kNoNode;
    }
    for (const NodeIndex part : parts)
      if (part != dev && !connectBoth(xml, dev, part, LinkType::kLoc, kPartBandwidth)) return kNoNode;
    return dev;
  }

  bool addGpu(const XmlNode& pci, const XmlNode& xml, NodeIndex parent, int host, int64_t busid,
              float bandwidth) {
    int sm = 0;
    int64_t id = 0;
    if (!checkPartBits(xml, busid) || !readInt(xml, "sm", sm)) return false;
    const int part = partOf(xml);
    if (part >= kMaxParts && settings_.topo_split_mlopart != 0)
      return fail(xml, "mlopart=\"" + xml.get("mlopart") + "\": NCCL knows partitions 0 and 1 only");
    if (!partitionedId(xml, busid, id)) return false;
    NodeIndex dev = graph_.find(NodeType::kDev, makeId(host, id));
    if (dev == kNoNode) dev = addDev(pci, xml, parent, host, id, bandwidth);
    if (dev == kNoNode) return false;
    const int64_t local = static_cast<int64_t>(at(dev).gpus) << 40 | (id & ((int64_t{1} << 40) - 1));
    const NodeIndex gpu = create(xml, NodeType::kGpu, makeId(host, local), host);
    if (gpu == kNoNode || !describeGpu(xml, at(gpu))) return false;
    at(gpu).busid = at(dev).busid;
    at(gpu).parent = dev;
    ++at(dev).gpus;
    return connectBoth(xml, dev, gpu, LinkType::kLoc, kLocalBandwidth);
  }

  const XmlDocument& document_;
  const Settings& settings_;
  const bool devs_;   // GPUs are linked to nodes of their physical device
  const bool parts_;  // GPUs can be split, and busids carry the number of the part
  Graph graph_;
  std::vector<uint64_t> host_hashes_;
  Error error_;
};

}  // namespace

Outcome<Graph> buildGraph(const XmlDocument& document, const Settings& settings) {
  return Builder(document, settings).build();
}

}  // namespace railwise::topo
