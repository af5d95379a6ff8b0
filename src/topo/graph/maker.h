// The ground that the graph builder stands on: NCCL's ways to create, look up and connect nodes and to read
// attributes. GraphMaker <- GraphLinks (links beside PCI) <- the builder (nodes and order). Members that
// answer bool return false once error_ is set. One thread at a time.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "topo/document/bus_id.h"
#include "topo/document/xml.h"
#include "topo/graph/constants.h"
#include "topo/graph/graph.h"
#include "topo/outcome.h"
#include "topo/settings.h"

namespace railwise::topo {

class GraphMaker {
 protected:
  GraphMaker(const XmlDocument& document, const Settings& settings)
      : document_(document), settings_(settings), devs_(settings.nccl == NcclVersion::k2_30) {}

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
    return fail(node, "<" + node.name + (busid != nullptr ? " busid=\"" + *busid + "\"" : "") + "> has no " +
                          attribute + "; NCCL fails its init without it: add " + attribute + "=\"...\"");
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

  static int intOr(const XmlNode& node, const char* attribute, int otherwise) {
    const std::string* text = node.find(attribute);
    return text == nullptr ? otherwise : toInt(*text);
  }

  // ncclTopoCreateNode
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

  // ncclTopoConnectNodes: one direction; links to the same node of the same type add up; sorted by bandwidth.
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
    if ((busid & kPartMask) == 0) return true;
    return fail(xml,
                "the last two bits of this GPU's busid are not 0; NCCL keeps its partition number there");
  }

  bool partitionedId(const XmlNode& gpu, int64_t busid, int64_t& id) {
    if (!checkPartBits(gpu, busid)) return false;
    id = busid;
    const int part = intOr(gpu, "mlopart", -1);
    if (part == -1 || settings_.topo_split_mlopart == 0) return true;
    id = busid | ((static_cast<int64_t>(part) << 1 | 1) & kPartMask);
    return true;
  }

  std::vector<NodeIndex> partsOf(int64_t id) const {  // ncclTopoGetDevNodes
    std::vector<NodeIndex> parts;
    for (const NodeIndex dev : graph_.of(deviceType()))
      if (devs_ ? (graph_.node(dev).id & ~kPartMask) == (id & ~kPartMask) : graph_.node(dev).id == id)
        parts.push_back(dev);
    return parts;
  }

  NodeType deviceType() const { return devs_ ? NodeType::kDev : NodeType::kGpu; }

  const XmlDocument& document_;
  const Settings& settings_;
  const bool devs_;  // GPUs hang on nodes of their physical device (since 2.30.3)
  Graph graph_;
  std::vector<uint64_t> host_hashes_;
  Error error_;
};

}  // namespace railwise::topo
