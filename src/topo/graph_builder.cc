#include "topo/graph_builder.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "topo/bus_id.h"
#include "topo/constants.h"

namespace railwise::topo {
namespace {

constexpr int kMaxNodesPerType = 640;   // NCCL_TOPO_MAX_NODES
constexpr std::size_t kMaxLinks = 576;  // NCCL_TOPO_MAX_LINKS
constexpr int kMaxParts = 2;            // NCCL_TOPO_MLOPART_DEV_MAX
constexpr int64_t kPartMask = 0x3;      // NCCL_TOPO_MLOPART_MASK
constexpr int64_t kLocalIdMask = 0x00ffffffffffffff;

int64_t makeId(int host, int64_t local) {
  return static_cast<int64_t>(static_cast<uint64_t>(host) << 56 |
                              static_cast<uint64_t>(local & kLocalIdMask));
}

int toInt(const std::string& text) { return static_cast<int>(std::strtol(text.c_str(), nullptr, 0)); }

// Every member returns false once error_ is set, and the callers leave.
class Builder {
 public:
  Builder(const XmlDocument& document, const Settings& settings)
      : document_(document), settings_(settings), devs_(settings.nccl == NcclVersion::k2_30) {}

  Outcome<Graph> build() {
    const XmlNode* system = document_.system();
    if (system == nullptr) return Error{document_.file + ": no <system> in this topology"};
    for (const XmlNode* cpu : system->children)
      if (cpu->name == "cpu" && !addCpu(*cpu)) return error_;
    if (host_hashes_.empty())
      return Error{where(document_, system->position) +
                   ": no <cpu> in <system>; NCCL needs at least one NUMA node"};
    graph_.setHosts(static_cast<int>(host_hashes_.size()), 0);
    if (!addNvlinks(*system, nullptr, 0) || !addC2c(*system, nullptr, 0) || !addPciLinks(*system, nullptr, 0))
      return error_;
    if (!flattenSwitches() || !connectCpus()) return error_;
    for (const NodeIndex cpu : graph_.of(NodeType::kCpu))
      if (!sortLinks(cpu, kNoNode)) return error_;
    graph_.finish();
    return std::move(graph_);
  }

 private:
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

  // --- CPUs ---

  bool readCpuModel(const XmlNode& xml, Node& cpu) {
    std::string text;
    if (!readText(xml, "arch", text)) return false;
    cpu.arch = cpuArch(text);
    if (cpu.arch != CpuArch::kX86) return true;
    if (!readText(xml, "vendor", text)) return false;
    cpu.vendor = cpuVendor(text);
    if (cpu.vendor != CpuVendor::kIntel && cpu.vendor != CpuVendor::kZhaoxin) return true;
    int family = 0;
    int model = 0;
    if (!readInt(xml, "familyid", family) || !readInt(xml, "modelid", model)) return false;
    cpu.model = cpuModel(cpu.vendor, family, model);
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

  // A <nic> directly in a <cpu>. The NUMA node falls out of the id, so that all of a host share the first
  // one's node.
  bool addVirtualNic(const XmlNode& xml, NodeIndex cpu, int host) {
    const int64_t id = makeId(host, 0);
    NodeIndex nic = lookUp(NodeType::kNic, id);
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
    // NCCL 2.28 wants the link only of what becomes a node.
    std::optional<float> bandwidth;
    if (devs_ && !readLink(xml, bandwidth)) return false;

    bool is_gpu = false;
    for (const XmlNode* gpu : xml.children) {
      if (gpu->name != "gpu") continue;
      if (!gpu->has("rank")) return true;  // dropped, with all that is in this pci
      if (!bandwidth && !readLink(xml, bandwidth)) return false;
      if (!(devs_ ? addGpu(xml, *gpu, parent, host, busid, *bandwidth)
                  : addPlainGpu(xml, *gpu, parent, host, busid, *bandwidth)))
        return false;
      is_gpu = true;
      if (!devs_) break;  // 2.28 looks at the first only
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

  // A pci with a nic child is a NIC whatever its class; its pci children are dropped.
  bool addNic(const XmlNode& xml, const XmlNode& nic, NodeIndex parent, int host, int64_t busid,
              std::optional<float> bandwidth) {
    const int64_t id = makeId(host, busid);
    NodeIndex node = lookUp(NodeType::kNic, id);
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
      if (!devs_) {
        if (!addNet(*net, NodeType::kNet, node, host)) return false;
        continue;
      }
      if (intOr(*net, "net", 1) != 0 && !addNet(*net, NodeType::kNet, node, host)) return false;
      if (intOr(*net, "gin", 0) != 0 && !addNet(*net, NodeType::kGin, node, host)) return false;
      if (intOr(*net, "rma", 0) != 0 && !addNet(*net, NodeType::kRma, node, host)) return false;
    }
    return true;
  }

  bool addNet(const XmlNode& xml, NodeType type, NodeIndex nic, int host) {
    const int dev = intOr(xml, "dev", 0);
    const int64_t id = makeId(host, dev);
    const NodeIndex index = create(xml, type, id, host);
    if (index == kNoNode) return false;
    Node& net = at(index);
    net.dev = dev;
    net.name = xml.get("name");
    const std::string* guid = xml.find("guid");
    net.has_guid = guid != nullptr;
    net.guid = guid != nullptr ? std::strtoull(guid->c_str(), nullptr, 16) : static_cast<uint64_t>(id);
    int speed_mbps = intOr(xml, "speed", 0);
    if (speed_mbps <= 0) speed_mbps = kDefaultNetMbps;
    net.bandwidth = static_cast<float>(speed_mbps / 8000.0);
    net.latency = std::strtof(xml.get("latency").c_str(), nullptr);
    net.port = intOr(xml, "port", 0);
    net.gdr = intOr(xml, "gdr", 0);
    net.max_comms = intOr(xml, "maxconn", kMaxChannels);
    net.coll = intOr(xml, "coll", 0);
    net.rail = intOr(xml, "rail", -1);
    net.plane = intOr(xml, "plane", -1);
    return connectBoth(xml, nic, index, LinkType::kNet, net.bandwidth);
  }

  // --- GPUs ---

  bool describeGpu(const XmlNode& xml, Node& gpu) {
    gpu.gcn = gcnName(xml.get("gcn"));
    gpu.mlopart = intOr(xml, "mlopart", -1);
    return readInt(xml, "rank", gpu.rank) && readInt(xml, "sm", gpu.sm) && readInt(xml, "dev", gpu.dev) &&
           readInt(xml, "gdr", gpu.gdr);
  }

  bool addPlainGpu(const XmlNode& pci, const XmlNode& xml, NodeIndex parent, int host, int64_t busid,
                   float bandwidth) {
    const NodeIndex gpu = create(xml, NodeType::kGpu, makeId(host, busid), host);
    if (gpu == kNoNode || !describeGpu(xml, at(gpu))) return false;
    describePci(pci, at(gpu));
    at(gpu).mlopart = -1;
    // With a nic beside it, 2.28 overwrites the node and the GPU stays unconnected.
    return pci.child("nic") != nullptr || connectBoth(xml, gpu, parent, LinkType::kPci, bandwidth);
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

  NodeIndex addDev(const XmlNode& pci, const XmlNode& xml, NodeIndex parent, int host, int64_t id,
                   float bandwidth) {
    const NodeIndex dev = create(xml, NodeType::kDev, makeId(host, id), host);
    if (dev == kNoNode) return kNoNode;
    describePci(pci, at(dev));
    at(dev).gcn = gcnName(xml.get("gcn"));
    at(dev).mlopart = intOr(xml, "mlopart", -1);
    if (!readInt(xml, "sm", at(dev).sm) || !readInt(xml, "dev", at(dev).dev)) return kNoNode;
    if (!connectBoth(xml, dev, parent, LinkType::kPci, bandwidth)) return kNoNode;
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
    const int part = intOr(xml, "mlopart", -1);
    if (part >= kMaxParts && settings_.topo_split_mlopart != 0)
      return fail(xml, "mlopart=\"" + xml.get("mlopart") + "\": NCCL knows partitions 0 and 1 only");
    if (!partitionedId(xml, busid, id)) return false;
    NodeIndex dev = lookUp(NodeType::kDev, makeId(host, id));
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

  // --- links beside PCI; each walks the whole tree as NCCL does ---

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

  // --- after all nodes are there ---

  // ncclTopoFlattenBcmSwitches: Broadcom Gen4 and Gen5 switches show two levels but carry full bandwidth
  // across.
  bool flattenSwitches() {
    for (int s = 0; s < graph_.count(NodeType::kPci); ++s) {
      const NodeIndex top = graph_.of(NodeType::kPci)[static_cast<std::size_t>(s)];
      const int generation = broadcomGeneration(at(top).pci_device, 0);
      if (generation == 0) continue;
      if (!flattenSwitch(top, generation)) return false;
      s = -1;
    }
    return true;
  }

  bool flattenSwitch(NodeIndex top, int generation) {
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
      const NodeIndex sub = lookUp(NodeType::kPci, id);
      if (sub == kNoNode || sub == top) {
        error_.text = document_.file + ": two PCIe switches have the same busid " + at(top).busid;
        return false;
      }
      moveLinks(sub, top);
      // NCCL goes on with what is at the same place of its array, which is another node when the inner switch
      // was before the outer one.
      const int place = at(top).index;
      removeSwitch(sub);
      if (place >= graph_.count(NodeType::kPci)) return true;
      top = graph_.of(NodeType::kPci)[static_cast<std::size_t>(place)];
    }
    at(top).pci_device |= 0xffff;  // not again
    return true;
  }

  void moveLinks(NodeIndex sub, NodeIndex top) {
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

  // A link that NCCL took out of a node's array, which stays behind its end until another takes its place: a
  // pointer to the place that a node had in the array of its type.
  struct Leftover {
    NodeType type;
    int place;
    Link link;
  };

  std::vector<Leftover>& leftovers(NodeIndex node) {
    leftovers_.resize(graph_.nodes().size());
    return leftovers_[static_cast<std::size_t>(node)];
  }

  Leftover leftoverOf(const Link& link) { return {at(link.to).type, at(link.to).index, link}; }

  // NCCL moves what follows by one place, so that the last one is there twice.
  void takeOut(NodeIndex node, std::size_t i) {
    auto& links = at(node).links;
    auto& left = leftovers(node);
    left.insert(left.begin(), leftoverOf(links.back()));
    links.erase(links.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void removeSwitch(NodeIndex gone) {
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

  bool connectCpus() {
    const XmlNode& system = *document_.system();
    for (const NodeIndex a : graph_.of(NodeType::kCpu))
      for (const NodeIndex b : graph_.of(NodeType::kCpu)) {
        if (a == b || at(a).host != at(b).host) continue;
        if (!connect(system, a, b, LinkType::kSys, interCpuBandwidth(at(a)))) return false;
      }
    return true;
  }

  // ncclTopoSort: in every node of the PCI tree the way up goes last.
  bool sortLinks(NodeIndex node, NodeIndex up) {
    if (up != kNoNode && !(leftovers(node).empty() ? moveLast(node, up) : moveLastAmongLeftovers(node, up))) {
      error_.text = document_.file + ": NCCL loses the links of the PCIe switch " + at(node).busid +
                    " when it merges the two levels of a Broadcom switch, and fails its init or crashes: "
                    "leave the inner "
                    "switches without devices out of the file";
      return false;
    }
    for (std::size_t i = 0; i < at(node).links.size(); ++i) {
      const Link link = at(node).links[i];
      if (link.type == LinkType::kPci && link.to != up && !sortLinks(link.to, node)) return false;
    }
    return true;
  }

  bool moveLast(NodeIndex node, NodeIndex up) {
    auto& links = at(node).links;
    const auto way_up =
        std::find_if(links.begin(), links.end(), [up](const Link& link) { return link.to == up; });
    if (way_up == links.end()) return false;
    std::rotate(way_up, way_up + 1, links.end());
    return true;
  }

  // NCCL goes by the empty place behind the array, not by the number of links: the way up ends behind the
  // leftovers, and what they point to by now comes into the node's links.
  bool moveLastAmongLeftovers(NodeIndex node, NodeIndex up) {
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

  const XmlDocument& document_;
  const Settings& settings_;
  const bool devs_;  // GPUs hang on nodes of their physical device (since 2.30.3)
  Graph graph_;
  std::vector<uint64_t> host_hashes_;
  std::vector<std::vector<Leftover>> leftovers_;  // by NodeIndex
  Error error_;
};

}  // namespace

Outcome<Graph> buildGraph(const XmlDocument& document, const Settings& settings) {
  return Builder(document, settings).build();
}

}  // namespace railwise::topo
