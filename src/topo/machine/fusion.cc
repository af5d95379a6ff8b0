#include "topo/machine/fusion.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/pci.h"
#include "base/text/words.h"

namespace railwise::topo {
namespace {

// NCCL_NET_MAX_DEVS_PER_NIC, for a v12 plugin and for earlier ones.
constexpr std::size_t kMaxDevicesPerNic = 8;
constexpr std::size_t kOldMaxDevicesPerNic = 4;
constexpr const char* kBridgeClass = "0x060400";

void setIntIfUnset(XmlNode& node, const char* name, int value) {
  node.setIfUnset(name, std::to_string(value));
}

std::string tooManyNodes(const XmlDocument& document) {
  if (document.order().size() <= static_cast<std::size_t>(kXmlMaxNodes)) return "";
  return "more than 256 XML elements together with the GPUs and NICs that NCCL adds: leave out of the file "
         "what has no GPU or NIC below it";
}

class Importer {
 public:
  Importer(XmlDocument& document, std::vector<NetDevice>& devices, const Settings& settings,
           const FindPci& find_pci)
      : document_(document),
        devices_(devices),
        settings_(settings),
        max_devices_(settings.nccl.has(NcclRule::kEightDevicesPerNic) ? kMaxDevicesPerNic
                                                                      : kOldMaxDevicesPerNic),
        find_pci_(find_pci) {}

  std::string run(bool can_merge) {
    const auto physical = devices_.size();
    populate(0, physical, false);
    if (error_.empty() && can_merge && settings_.nccl.has(NcclRule::kFusion)) mergeNics(physical);
    if (error_.empty() && devices_.size() > physical) {
      dropMembers(physical);
      populate(physical, devices_.size(), true);
    }
    if (error_.empty()) error_ = tooManyNodes(document_);
    return error_;
  }

 private:
  XmlNode* netNamed(const std::string& name) const { return document_.find("net", "name", name); }

  // --- ncclTopoPopulateNics ---

  void populate(std::size_t first, std::size_t end, bool is_virtual) {
    for (std::size_t i = first; i < end && error_.empty(); ++i) {
      XmlNode* net = netNamed(devices_[i].name);
      if (net == nullptr) {
        XmlNode* parent = is_virtual ? virtualParent(devices_[i]) : physicalParent(devices_[i]);
        if (parent == nullptr) return;
        net = addNet(parent, devices_[i].name);
      }
      describe(*net, devices_[i], static_cast<int>(i));
    }
  }

  XmlNode* physicalParent(const NetDevice& device) {
    XmlNode* parent = find_pci_(document_, device);
    if (parent == nullptr) parent = document_.find("cpu");
    if (parent == nullptr) error_ = "no <cpu> to hang " + device.name + " on";
    return parent;
  }

  XmlNode* addNet(XmlNode* parent, const std::string& name) {
    XmlNode* nic = parent->child("nic");
    if (nic == nullptr) nic = document_.add(parent, "nic");
    XmlNode* net = document_.add(nic, "net");
    net->set("name", name);
    return net;
  }

  static void describe(XmlNode& net, const NetDevice& device, int dev) {
    net.set("keep", "1");
    net.set("dev", std::to_string(dev));
    setIntIfUnset(net, "latency", 0);
    setIntIfUnset(net, "speed", device.speed_mbps);
    setIntIfUnset(net, "port", device.port);
    if (device.rail != -1) setIntIfUnset(net, "rail", device.rail);
    if (device.plane != -1) setIntIfUnset(net, "plane", device.plane);
    net.setIfUnset("guid", hexText(device.guid));
    setIntIfUnset(net, "maxconn", device.max_comms);
    setIntIfUnset(net, "gdr", device.gdr ? 1 : 0);
    net.set("net", "1");
  }

  // ncclTopoUpdateVNics: the members of a virtual NIC are no longer devices of their own.
  void dropMembers(std::size_t physical) {
    for (std::size_t i = physical; i < devices_.size(); ++i)
      for (const int member : devices_[i].members) {
        XmlNode* net = netNamed(devices_[static_cast<std::size_t>(member)].name);
        if (net == nullptr) continue;
        net->set("net", "0");
        const auto used = [net](const char* by) {
          return std::strtol(net->get(by, "0").c_str(), nullptr, 0) != 0;
        };
        if (!used("gin") && !used("coll")) net->set("keep", "0");
      }
  }

  // --- ncclTopoMakeVNics ---

  void mergeNics(std::size_t physical) {
    if (physical == 0) return;  // NCCL does not look at NCCL_NET_FORCE_MERGE then
    for (std::size_t i = 0; i < physical; ++i) physical_.push_back(netNamed(devices_[i].name));
    placed_.assign(physical, false);
    if (!settings_.net_force_merge.empty()) forceMerge();
    if (error_.empty()) autoMerge();
  }

  // What net_ib's makeVDevice would answer.
  bool makeVirtual(const std::vector<int>& members) {
    if (members.size() == 1) return true;
    if (settings_.ib_merge_nics == 0) return false;
    NetDevice made = devices_[static_cast<std::size_t>(members[0])];
    for (const int member : members) {
      const NetDevice& device = devices_[static_cast<std::size_t>(member)];
      if (!device.can_fuse || device.link != made.link) return false;
    }
    made.members = members;
    for (std::size_t i = 1; i < members.size(); ++i) {
      const NetDevice& member = devices_[static_cast<std::size_t>(members[i])];
      made.name += "+" + member.name;
      made.speed_mbps += member.speed_mbps;
      if (member.rail != made.rail) made.rail = -1;
    }
    made.plane = -1;
    devices_.push_back(std::move(made));
    return true;
  }

  // NCCL_NET_FORCE_MERGE has the form "a,b;c,d", with exact names that may end with ":port".
  void forceMerge() {
    for (const std::string& group : fullPartsOf(settings_.net_force_merge, ';')) {
      const auto names = fullPartsOf(group, ',');
      std::vector<int> members;
      for (std::size_t d = 0; d < physical_.size(); ++d)
        if (std::any_of(names.begin(), names.end(),
                        [&](const std::string& n) { return matches(devices_[d], n); }))
          members.push_back(static_cast<int>(d));
      if (members.size() != names.size()) {
        error_ = "NCCL_NET_FORCE_MERGE: " + std::to_string(members.size()) + " devices match '" + group +
                 "', which names " + std::to_string(names.size()) + "; NCCL fails its init";
        return;
      }
      if (members.size() > max_devices_ || !makeVirtual(members)) {
        error_ = "NCCL_NET_FORCE_MERGE: '" + group + "' cannot be merged (at most " +
                 std::to_string(max_devices_) + " devices, and not with NCCL_IB_MERGE_NICS=0)";
        return;
      }
      for (const int member : members) placed_[static_cast<std::size_t>(member)] = true;
    }
  }

  static bool matches(const NetDevice& device, const std::string& name_and_port) {
    const std::size_t colon = name_and_port.find(':');
    if (device.name != name_and_port.substr(0, colon)) return false;
    return colon == std::string::npos || std::atoi(name_and_port.c_str() + colon + 1) == device.port;
  }

  void autoMerge() {
    if (settings_.net_merge_level == PathType::kLoc) return;  // two devices are never that near
    const std::size_t count = physical_.size();
    std::vector<std::vector<PathType>> distance(count, std::vector<PathType>(count));
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < count; ++j)
        distance[i][j] = commonParent({physical_[i], physical_[j]}).distance;
    for (std::size_t i = 0; i < count; ++i) {
      if (placed_[i]) continue;
      const auto members = mergeable(i, distance);
      for (const int member : members) placed_[static_cast<std::size_t>(member)] = true;
      if (makeVirtual(members)) continue;
      // Tries again without these members, as NCCL does (NCCL continues at index 1).
      for (const int member : members) {
        const auto m = static_cast<std::size_t>(member);
        placed_[m] = false;
        if (m != i) distance[i][m] = distance[m][i] = PathType::kDis;
      }
      i = 0;
    }
  }

  std::vector<int> mergeable(std::size_t i, const std::vector<std::vector<PathType>>& distance) const {
    const bool by_rail = settings_.net_merge_rail && settings_.nccl.has(NcclRule::kMergePolicy);
    std::vector<int> members = {static_cast<int>(i)};
    for (std::size_t j = 0; j < physical_.size() && members.size() < max_devices_; ++j) {
      if (j == i || placed_[j] || distance[i][j] > settings_.net_merge_level) continue;
      if (by_rail && (devices_[i].rail == -1 || devices_[i].rail != devices_[j].rail)) continue;
      members.push_back(static_cast<int>(j));
    }
    return members;
  }

  // --- ncclTopoGetPath ---

  struct Common {
    PathType distance = PathType::kLoc;
    XmlNode* parent = nullptr;
  };

  static std::vector<XmlNode*> ancestors(XmlNode* node) {  // the <system> is the last
    std::vector<XmlNode*> chain;
    for (; node != nullptr; node = node->name == "system" ? nullptr : node->parent) chain.push_back(node);
    return chain;
  }

  // True if all are functions of one card: their addresses are equal except for the last character.
  static bool sameCard(const std::vector<std::vector<XmlNode*>>& chains) {
    const std::string* first = chains[0].back()->find("busid");
    if (first == nullptr) return false;
    for (const auto& chain : chains) {
      if (chain.empty()) continue;
      const std::string* other = chain.back()->find("busid");
      if (other == nullptr || other->size() != first->size() || other->empty() ||
          other->compare(0, other->size() - 1, *first, 0, first->size() - 1) != 0)
        return false;
    }
    return true;
  }

  static Common commonParent(const std::vector<XmlNode*>& nodes) {
    if (nodes.size() == 1) return {PathType::kLoc, firstPci(nodes[0])};
    std::vector<std::vector<XmlNode*>> chains;
    for (XmlNode* node : nodes) chains.push_back(ancestors(node));
    XmlNode* common = nullptr;
    bool same_card = false;
    while (!chains[0].empty()) {
      XmlNode* top = chains[0].back();
      if (!std::all_of(chains.begin(), chains.end(),
                       [top](const auto& c) { return !c.empty() && c.back() == top; })) {
        same_card = sameCard(chains);
        break;
      }
      common = top;
      for (auto& chain : chains) chain.pop_back();
    }
    if (common == nullptr) return {PathType::kDis, nullptr};
    return {same_card ? PathType::kNvl : distanceBy(*common, nodes), firstPci(common)};
  }

  static PathType distanceBy(const XmlNode& common, const std::vector<XmlNode*>& nodes) {
    if (common.name == "system") return PathType::kSys;
    if (common.name == "cpu") return PathType::kPhb;
    if (common.name == "nic" || common.name == "net") return PathType::kNvl;  // PORT
    const bool direct = std::all_of(nodes.begin(), nodes.end(), [&common](const XmlNode* net) {
      const XmlNode* nic = net->parent;
      if (nic == nullptr || nic->name != "nic") return nic != nullptr;
      const XmlNode* pci = nic->parent;
      return pci != nullptr && (pci->name != "pci" || pci->parent == &common);
    });
    return direct ? PathType::kPix : PathType::kPxb;
  }

  static XmlNode* firstPci(XmlNode* node) {  // the node itself if there is no <pci> above it
    for (XmlNode* up = node; up != nullptr && up->name != "system"; up = up->parent)
      if (up->name == "pci") return up;
    return node;
  }

  // --- ncclTopoGetVNicParent ---

  XmlNode* virtualParent(const NetDevice& device) {
    std::vector<XmlNode*> members;
    for (const int member : device.members)
      members.push_back(netNamed(devices_[static_cast<std::size_t>(member)].name));
    const Common common = commonParent(members);
    XmlNode* parent = common.parent;
    int width = 0;
    if (common.distance == PathType::kPhb || common.distance == PathType::kPxb ||
        common.distance == PathType::kPix)
      width = widthBelow(*parent, members);
    XmlNode* made = parent;
    if (parent->name == "system") {
      error_ = device.name + " merges NICs of different NUMA nodes, which NCCL does not support";
      return nullptr;
    }
    if (parent->name == "cpu" || (parent->name == "pci" && parent->get("class") == kBridgeClass))
      made = makePci(parent, *members[0]);
    if (made == nullptr || width == 0) return made;
    for (XmlNode* node = made; node != nullptr; node = node->parent) {
      if (node->name == "pci") node->set("link_width", std::to_string(width));
      if (node == parent) break;
    }
    return made;
  }

  // Makes a <pci> for the virtual NIC, like the <pci> of the first member, at the next free address.
  XmlNode* makePci(XmlNode* parent, const XmlNode& member) {
    constexpr int kTries = 100;
    const XmlNode* pci = member.parent == nullptr ? nullptr : member.parent->parent;
    if (pci == nullptr || pci->name != "pci") {
      error_ = "no PCI address for the virtual NIC of " + member.get("name");
      return nullptr;
    }
    int64_t number = busIdToNumber(pci->get("busid"));
    for (int i = 0; i < kTries; ++i) {
      const std::string busid = busIdText(++number);
      if (document_.find("pci", "busid", busid) != nullptr) continue;
      XmlNode* made = document_.add(parent, "pci");
      made->set("busid", busid);
      for (const XmlAttribute& attribute : pci->attributes)
        if (attribute.name != "busid") made->set(attribute.name, attribute.value);
      return made;
    }
    error_ = "no free PCI address for a virtual NIC near " + pci->get("busid");
    return nullptr;
  }

  struct Width {
    bool found = false;
    int lanes = 0;
  };

  // The sum of the lanes of the members below a node, limited by every link between them
  // (ncclTopoFindLinkWidthRec).
  static Width widthOf(const XmlNode& node, const std::vector<XmlNode*>& members) {
    const int own =
        node.name == "pci" ? static_cast<int>(std::strtol(node.get("link_width").c_str(), nullptr, 0)) : 0;
    Width width{std::find(members.begin(), members.end(), &node) != members.end(), 0};
    int below = 0;
    for (const XmlNode* child : node.children) {
      const Width found = widthOf(*child, members);
      width.found = width.found || found.found;
      if (found.found) below += found.lanes;
    }
    if (!width.found) return width;
    if (below == 0) return {true, own};
    return {true, own > 0 ? std::min(own, below) : below};
  }

  static int widthBelow(const XmlNode& parent, const std::vector<XmlNode*>& members) {
    return std::accumulate(
        parent.children.begin(), parent.children.end(), 0,
        [&members](int sum, const XmlNode* child) { return sum + widthOf(*child, members).lanes; });
  }

  XmlDocument& document_;
  std::vector<NetDevice>& devices_;
  const Settings& settings_;
  const std::size_t max_devices_;
  const FindPci& find_pci_;
  std::vector<XmlNode*> physical_;
  std::vector<bool> placed_;
  std::string error_;
};

bool trimNode(XmlNode* node) {
  if (node->get("keep") == "1") {
    node->unset("keep");
    return true;
  }
  bool keep = false;
  const auto children = node->children;  // a copy, because trimming changes the list
  for (XmlNode* child : children) keep = trimNode(child) || keep;
  if (!keep && (node->name == "pci" || node->name == "cpu" || node->name == "nic" || node->name == "net"))
    XmlDocument::detach(node);
  return keep;
}

bool equalNodes(const XmlNode& a, const XmlNode& b) {
  if (a.name != b.name || a.kind != b.kind || a.attributes.size() != b.attributes.size()) return false;
  return std::all_of(b.attributes.begin(), b.attributes.end(), [&a](const XmlAttribute& attribute) {
    const std::string* value = a.find(attribute.name);
    return value != nullptr && *value == attribute.value;
  });
}

void fuseNode(XmlDocument& all, XmlNode* into, const XmlNode& from) {
  for (const XmlNode* child : from.children) {
    const auto twin = std::find_if(into->children.begin(), into->children.end(),
                                   [child](const XmlNode* known) { return equalNodes(*known, *child); });
    if (twin == into->children.end()) {
      all.copy(into, *child);
    } else {
      fuseNode(all, *twin, *child);
    }
  }
}

}  // namespace

std::string importNets(XmlDocument& document, std::vector<NetDevice>& devices, const Settings& settings,
                       const FindPci& find_pci, bool can_merge) {
  return Importer(document, devices, settings, find_pci).run(can_merge);
}

void insertByBusId(XmlNode& parent, XmlNode* pci) {
  const std::string busid = pci->get("busid");
  const auto after = std::find_if(parent.children.begin(), parent.children.end(), [&](const XmlNode* child) {
    const std::string* other = child->find("busid");
    return other != nullptr && busid < *other;
  });
  parent.children.insert(after, pci);
  pci->parent = &parent;
}

void trimXml(XmlDocument& document) {
  if (!document.order().empty()) trimNode(document.order().front());
}

std::string fuseXml(XmlDocument& all, const XmlDocument& rank) {
  XmlNode* into = all.system();
  const XmlNode* from = rank.system();
  if (from == nullptr) return "";
  if (into == nullptr) {
    all.file = rank.file;
    all.version = rank.version;
    all.copy(nullptr, *from);
  } else {
    fuseNode(all, into, *from);
  }
  return tooManyNodes(all);
}

}  // namespace railwise::topo
