// The links that are not part of the PCI tree: NVLink (xGMI), C2C, Broadcom's links between switches, and
// those between CPUs. Each kind walks the whole document when all nodes are there, as NCCL does. Used by
// builder.cc only.
#pragma once

#include "topo/graph/maker.h"

namespace railwise::topo {

class GraphLinks : public GraphMaker {
 protected:
  using GraphMaker::GraphMaker;

  // The device node that a <gpu> of this pci hangs on, or an error: its NVLinks have no end.
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

  // Of several ranks on one device only the first brings the links (ncclTopoXmlIsPrimaryGpuForDev).
  bool isPrimary(const XmlNode& gpu) const {
    if (!devs_) return true;
    const int part = intOr(gpu, "mlopart", -1);
    for (const XmlNode* sibling : gpu.parent->children) {
      if (sibling->name != "gpu") continue;
      if (sibling == &gpu) break;
      if (intOr(*sibling, "mlopart", -1) == part || settings_.topo_split_mlopart == 0) return false;
    }
    return true;
  }

  template <typename Visit>
  bool walk(const XmlNode& node, const char* name, const std::string* busid, int host, const Visit& visit) {
    if (node.name == name) return visit(node, busid, host);
    if (node.name == "cpu") host = hostOf(node);
    const std::string* own = node.find("busid");
    for (const XmlNode* child : node.children)
      if (!walk(*child, name, own != nullptr ? own : busid, host, visit)) return false;
    return true;
  }

  bool addNvlinks(const XmlNode& system, const std::string* busid, int host) {
    const auto visit = [this](const XmlNode& link, const std::string* gpu_busid, int on) {
      return addNvlink(link, gpu_busid, on);
    };
    return walk(system, document_.version == 1 ? "nvlink" : "xgmi", busid, host, visit);
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
    const bool nvlink = document_.version == 1 || settings_.xgmi_as_nvlink;
    const float per_link = nvlink ? nvlinkBandwidth(from.sm) : xgmiBandwidth(from.gcn);
    const auto parts = static_cast<float>(devs_ ? partsOf(from.id).size() : 1);
    const float all = static_cast<float>(count) * per_link;
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

  // One direction only: the other end brings its own.
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

  NodeIndex nvswitch() {
    return graph_.count(NodeType::kNvs) == 0 ? graph_.add(NodeType::kNvs, 0, 0)
                                             : graph_.of(NodeType::kNvs)[0];
  }

  // findLocalCpu: up the PCI tree.
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

  bool addC2c(const XmlNode& system, const std::string* busid, int host) {
    const auto visit = [this](const XmlNode& link, const std::string* gpu_busid, int on) {
      return addC2cLink(link, gpu_busid, on);
    };
    return walk(system, "c2c", busid, host, visit);
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
    const NodeIndex cpu = cpuAbove(device, kNoNode);
    if (cpu == kNoNode) return true;
    if (!devs_ || partsOf(at(device).id).size() <= 1)
      return connectBoth(link, device, cpu, LinkType::kC2c, bandwidth);
    // The parts of a split GPU share the link: a node of its own holds the sum down.
    const int64_t id = at(device).id & ~kPartMask;
    NodeIndex bridge = lookUp(NodeType::kCxb, id);
    if (bridge == kNoNode) {
      bridge = create(link, NodeType::kCxb, id, host);
      if (bridge == kNoNode || !connectBoth(link, bridge, cpu, LinkType::kC2c, bandwidth)) return false;
      at(bridge).busid = at(device).busid;
    }
    return connectBoth(link, device, bridge, LinkType::kC2c, bandwidth);
  }

  bool addPciLinks(const XmlNode& system, const std::string* busid, int host) {
    const auto visit = [this](const XmlNode& link, const std::string* from, int on) {
      return addPciLink(link, from, on);
    };
    return walk(system, "pcilink", busid, host, visit);
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
        if (!connect(system, a, b, LinkType::kSys, interCpuBandwidth(at(a)))) return false;
      }
    return true;
  }
};

}  // namespace railwise::topo
