// Rules about <nic> and <net>.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "topo/graph/constants.h"
#include "topo/lint/rules.h"

namespace railwise::topo {
namespace {

constexpr int kSlowestPlausible = 1000;  // Mb/s; a smaller number was probably meant as Gb/s

std::string netName(const XmlNode& net) {
  return net.has("name") ? inQuotes(net.get("name")) : "without a name";
}

bool isNet(const XmlNode& net) { return intOf(net, "net", 1) != 0; }

void lintNetSpeed(Linter& linter, const XmlNode& net) {
  const int speed = intOf(net, "speed", 0);
  if (speed >= kSlowestPlausible) return;
  const std::string what = "net " + netName(net) +
                           (net.has("speed") ? " has speed " + inQuotes(net.get("speed")) : " has no speed");
  const std::string reading = speed > 0 ? "Mb/s, that is " + std::to_string(speed) + "/1000 Gb/s" : "10 Gb/s";
  linter.warning(Rule::kNetSpeed, placeOf(net, "speed"), what + "; NCCL takes " + reading,
                 "write Mb/s: speed=\"400000\" for a 400 Gb/s port");
}

void lintDescribed(Linter& linter, const XmlNode& net) {
  if (isNet(net)) lintNetSpeed(linter, net);
  if (isNet(net) && !net.has("gdr")) {
    linter.warning(Rule::kNetGdr, net.position,
                   "net " + netName(net) + " has no gdr; NCCL takes 0, and GPUDirect RDMA is off",
                   "write gdr=\"1\" if the NIC and the driver support it");
  }
  if (!net.has("name")) {
    linter.warning(Rule::kNetName, net.position,
                   "this <net> has no name; NCCL looks up its devices by name, does not find it and adds the "
                   "device again",
                   "write name=\"mlx5_0\", the plugin's name for it");
  }
}

void lintNet(Linter& linter, const XmlNode& net) {
  if (net.has("dev")) {
    lintDescribed(linter, net);
  } else if (linter.describesNets()) {
    linter.warning(Rule::kNetWithoutDev, net.position,
                   "net " + netName(net) + " has no dev, so NCCL leaves it out",
                   "write the net plugin's device number, or remove it");
  }
}

void lintDuplicateDevs(Linter& linter) {
  std::map<std::tuple<std::string, std::string, int>, const XmlNode*> seen;
  for (const XmlNode* net : linter.all("net")) {
    if (!net->has("dev")) continue;
    for (const char* kind : {"net", "gin", "rma"}) {
      const bool is_kind = intOf(*net, kind, kind == std::string_view("net") ? 1 : 0) != 0;
      if (!is_kind) continue;
      const auto [other, added] = seen.emplace(std::tuple{hostOf(*net), kind, intOf(*net, "dev", 0)}, net);
      if (added) continue;
      linter.error(Rule::kDuplicateNetDev, placeOf(*net, "dev"),
                   "dev " + net->get("dev") + " is in line " + std::to_string(other->second->position.line) +
                       " already; NCCL finds only the first net",
                   "give each net the plugin's own device number");
    }
  }
}

int portsOf(const XmlNode& nic) {
  return static_cast<int>(std::count_if(nic.children.begin(), nic.children.end(), [](const XmlNode* net) {
    return net->name == "net" && isNet(*net);
  }));
}

void lintNicPlace(Linter& linter, const XmlNode& nic) {
  const XmlNode& pci = *nic.parent;
  if (pci.name != "pci") return;
  if (pci.child("nic") != &nic) {
    linter.error(Rule::kSecondNic, nic.position,
                 pciText(pci) + " has a second <nic>; NCCL reads the first only",
                 "put all <net> into one <nic>");
  }
  if (!pci.get("class").starts_with("0x06") || portsOf(nic) == 0) return;
  linter.warning(Rule::kNicOnBridge, nic.position,
                 "the nets hang on " + pciText(pci) + " of class " + pci.get("class") +
                     ", which is no NIC: NCCL_IB_MERGE_VFS=1 puts virtual functions on device 00 of their "
                     "bus, whatever that is, "
                     "and all share its link",
                 "set NCCL_IB_MERGE_VFS=0 where the file was made, or move each <nic> to its own <pci>");
}

bool sameCard(const XmlNode& a, const XmlNode& b) {
  const std::string one = a.get("busid");
  const std::string other = b.get("busid");
  return !one.empty() && one.size() == other.size() && one != other &&
         one.compare(0, one.size() - 1, other, 0, other.size() - 1) == 0;
}

bool isNicPci(const Linter& linter, const XmlNode& pci) {
  if (const XmlNode* nic = pci.child("nic"); nic != nullptr) return portsOf(*nic) > 0;
  return pci.name == "pci" && pci.children.empty() && !linter.describesNets() &&
         classType(pci.get("class"), linter.document().version) == NodeType::kNic;
}

// Checks which NICs NCCL merges with its default, NCCL_NET_MERGE_LEVEL=PORT.
void lintMerging(Linter& linter) {
  if (linter.rccl()) return;
  const std::string fix = "NCCL_NET_MERGE_LEVEL=LOC keeps them apart";
  for (const XmlNode* nic : linter.all("nic")) {
    if (portsOf(*nic) < 2) continue;
    linter.note(Rule::kNicsMerge, nic->position,
                "NCCL merges the " + std::to_string(portsOf(*nic)) + " nets of this <nic> into one device",
                fix);
  }
  for (const XmlNode* pci : linter.all("pci")) {
    if (pci->parent == nullptr || !isNicPci(linter, *pci)) continue;
    for (const XmlNode* sibling : pci->parent->children) {
      if (sibling == pci) break;
      if (sibling->name != "pci" || !isNicPci(linter, *sibling) || !sameCard(*pci, *sibling)) continue;
      linter.note(
          Rule::kNicsMerge, pci->position,
          "NCCL merges " + pciText(*pci) + " with " + pciText(*sibling) + ", as two ports of one card", fix);
      break;
    }
  }
}

// NCCL gives a <nic> without <pci> the id 0 on every NUMA node.
void lintVirtual(Linter& linter) {
  std::map<std::string, const XmlNode*> first;
  std::set<const XmlNode*> told;
  for (const XmlNode* nic : linter.all("nic")) {
    if (nic->parent->name != "cpu") continue;
    const auto [other, added] = first.emplace(hostOf(*nic), nic->parent);
    if (added) {
      linter.note(Rule::kVirtualNic, nic->position,
                  "a <nic> without <pci>: NCCL takes it for a virtual device, 5000 GB/s from its <cpu>",
                  "if it is a card, put it into a <pci> with an address and a class");
    }
    if (added || other->second == nic->parent || !told.insert(nic->parent).second) continue;
    linter.error(Rule::kVirtualNicShared, nic->position,
                 "a <nic> without <pci> in a second <cpu>: NCCL hangs its nets under the <cpu> of line " +
                     std::to_string(other->second->position.line),
                 "put it into a <pci> with an address and a class");
  }
}

}  // namespace

void lintNets(Linter& linter) {
  for (const XmlNode* net : linter.all("net")) lintNet(linter, *net);
  for (const XmlNode* nic : linter.all("nic")) lintNicPlace(linter, *nic);
  lintDuplicateDevs(linter);
  lintMerging(linter);
  lintVirtual(linter);
}

}  // namespace railwise::topo
