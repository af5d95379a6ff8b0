// The base class of the graph builder. It has NCCL's functions to create, look up and connect nodes and to
// read attributes, and it adds the links that are not PCI links. The builder itself adds the nodes, in NCCL's
// order. A member that returns bool returns false once error_ is set. One thread at a time.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "base/pci.h"
#include "topo/document/xml.h"
#include "topo/graph/constants.h"
#include "topo/graph/graph.h"
#include "topo/settings.h"

namespace railwise::topo {

class GraphMaker {
 protected:
  GraphMaker(const XmlDocument& document, const Settings& settings)
      : document_(document),
        settings_(settings),
        devs_(settings.nccl.has(NcclRule::kDeviceNodes)),
        parts_(settings.nccl.has(NcclRule::kPartitions)) {}

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

  NodeIndex lookUp(NodeType type, int64_t id) const {
    const int index = graph_.indexOf(type, id);
    return index < 0 ? kNoNode : graph_.of(type)[static_cast<std::size_t>(index)];
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
    device = lookUp(deviceType(), makeId(host, id));
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
  using AddLink = bool (GraphMaker::*)(const XmlNode& link, const std::string* busid, int host);

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
    return walk(system, document_.version == 1 ? "nvlink" : "xgmi", nullptr, 0, &GraphMaker::addNvlink) &&
           (!c2c || walk(system, "c2c", nullptr, 0, &GraphMaker::addC2cLink)) &&
           walk(system, "pcilink", nullptr, 0, &GraphMaker::addPciLink);
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
    NodeIndex bridge = lookUp(NodeType::kCxb, id);
    if (bridge == kNoNode) {
      bridge = create(link, NodeType::kCxb, id, host);
      if (bridge == kNoNode || !connectBoth(link, bridge, cpu, LinkType::kC2c, bandwidth)) return false;
      at(bridge).busid = at(device).busid;
    }
    return connectBoth(link, device, bridge, LinkType::kC2c, bandwidth);
  }

  bool addPciLink(const XmlNode& link, const std::string* busid, int host) {
    const std::string from = busid == nullptr ? "" : *busid;
    const NodeIndex pci = lookUp(NodeType::kPci, makeId(host, busIdToNumber(from)));
    if (pci == kNoNode) return fail(link, "<pcilink> in " + from + ", which is not a switch in the graph");
    std::string target;
    if (!readText(link, "target", target)) return false;
    const NodeIndex remote = lookUp(NodeType::kPci, makeId(host, busIdToNumber(target)));
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

  const XmlDocument& document_;
  const Settings& settings_;
  const bool devs_;   // GPUs are linked to nodes of their physical device
  const bool parts_;  // GPUs can be split, and busids carry the number of the part
  Graph graph_;
  std::vector<uint64_t> host_hashes_;
  Error error_;
};

}  // namespace railwise::topo
