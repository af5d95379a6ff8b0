// Rules about <nic> and <net>.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "topo/graph/constants.h"
#include "topo/lint/rules.h"

namespace railwise::topo {
namespace {

constexpr int kMaxMerged = 8;            // NCCL_NET_MAX_DEVS_PER_NIC
constexpr int kSlowestPlausible = 1000;  // Mb/s; a smaller number was probably meant as Gb/s

std::string netName(const XmlNode& net) {
  return net.has("name") ? inQuotes(net.get("name")) : "without a name";
}

bool isNet(const XmlNode& net) { return intOf(net, "net", 1) != 0; }

void lintNetSpeed(Linter& linter, const XmlNode& net) {
  const int speed = intOf(net, "speed", 0);
  if (!net.has("speed") || speed >= kSlowestPlausible) return;
  const std::string reading = speed > 0 ? "Mb/s, that is " + std::to_string(speed) + "/1000 Gb/s" : "10 Gb/s";
  linter.warning(
      "net-speed", placeOf(net, "speed"),
      "net " + netName(net) + " has speed " + inQuotes(net.get("speed")) + "; NCCL takes " + reading,
      "write Mb/s: speed=\"400000\" for a 400 Gb/s port, or leave it to the plugin");
}

void lintNet(Linter& linter, const XmlNode& net) {
  if (net.has("name")) {
    if (isNet(net)) lintNetSpeed(linter, net);
    return;
  }
  linter.warning(
      "net-name", net.position,
      "this <net> has no name; NCCL looks up its devices by name, so it drops this <net> and adds the "
      "device again",
      "write name=\"mlx5_0\", the plugin's name for it");
}

// Writes one note for the whole file: NCCL asks the plugin for what a net lacks.
void lintLeftOut(Linter& linter, Rule rule, std::initializer_list<const char*> attributes,
                 const char* assumed) {
  std::vector<const XmlNode*> without;
  for (const XmlNode* net : linter.all("net"))
    if (net->has("name") && isNet(*net) && !missingOf(*net, attributes).empty()) without.push_back(net);
  if (without.empty()) return;
  const std::string left_out = listText(missingOf(*without[0], attributes));
  linter.note(
      rule, without[0]->position,
      "net " + netName(*without[0]) + " has no " + left_out + moreText(without) + "; NCCL takes the plugin's",
      "write " + left_out + " if the file is to stand for itself: `railwise topo` assumes " + assumed);
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
      const std::string what = "dev " + net->get("dev") + " is in line " +
                               std::to_string(other->second->position.line) + " already";
      const std::string fix = "give each net the plugin's own device number";
      if (net->get("name") == other->second->get("name")) {
        linter.error("duplicate-net-dev", placeOf(*net, "dev"),
                     what + ", with the same name; NCCL finds only the first net", fix);
      } else {
        linter.warning(
            "duplicate-net-dev", placeOf(*net, "dev"),
            what + "; NCCL takes the plugin's numbers, and drops a net that the plugin does not have", fix);
      }
    }
  }
}

void lintDuplicateNames(Linter& linter) {
  std::map<std::tuple<std::string, std::string>, const XmlNode*> seen;
  for (const XmlNode* net : linter.all("net")) {
    if (!net->has("name") || !isNet(*net)) continue;
    const auto [other, added] = seen.emplace(std::tuple{hostOf(*net), net->get("name")}, net);
    // Of equal numbers duplicate-net-dev says it.
    if (added || net->get("dev") == other->second->get("dev")) continue;
    linter.error("duplicate-net-name", placeOf(*net, "name"),
                 "net " + netName(*net) + " is in line " + std::to_string(other->second->position.line) +
                     " already; NCCL finds only the first net, and drops this one",
                 "give each net the plugin's own name");
  }
}

// The ports of a NIC. `mergeable`: those that NCCL can merge. Those of port 0 are the devices of its Socket
// plugin, which cannot.
int portsOf(const XmlNode& nic, bool mergeable) {
  return static_cast<int>(std::count_if(nic.children.begin(), nic.children.end(), [&](const XmlNode* net) {
    return net->name == "net" && isNet(*net) && (!mergeable || intOf(*net, "port", 1) != 0);
  }));
}

void lintNicPlace(Linter& linter, const XmlNode& nic) {
  const XmlNode& pci = *nic.parent;
  if (pci.name != "pci") return;
  if (pci.child("nic") != &nic) {
    linter.error("second-nic", nic.position, pciText(pci) + " has a second <nic>; NCCL reads the first only",
                 "put all <net> into one <nic>");
  }
  if (!pci.get("class").starts_with("0x06") || portsOf(nic, false) == 0) return;
  linter.warning("nic-on-bridge", nic.position,
                 "the nets hang on " + pciText(pci) + " of class " + pci.get("class") +
                     ", which is no NIC: NCCL_IB_MERGE_VFS=1 puts virtual functions on device 00 of their "
                     "bus, whatever that is, and all share its link",
                 "set NCCL_IB_MERGE_VFS=0 where the file was made, or move each <nic> to its own <pci>");
}

bool sameCard(const XmlNode& a, const XmlNode& b) {
  const std::string one = a.get("busid");
  const std::string other = b.get("busid");
  return !one.empty() && one.size() == other.size() && one != other &&
         one.compare(0, one.size() - 1, other, 0, other.size() - 1) == 0;
}

bool isNicPci(const Linter& linter, const XmlNode& pci) {
  if (const XmlNode* nic = pci.child("nic"); nic != nullptr) return portsOf(*nic, true) > 0;
  return pci.name == "pci" && pci.children.empty() && !linter.describesNets() &&
         classType(pci.get("class"), linter.document().version) == NodeType::kNic;
}

// Checks which NICs NCCL merges with its default, NCCL_NET_MERGE_LEVEL=PORT.
void lintMerging(Linter& linter) {
  if (linter.rccl()) return;
  const std::string fix = "NCCL_NET_MERGE_LEVEL=LOC keeps them apart";
  for (const XmlNode* nic : linter.all("nic")) {
    const int ports = portsOf(*nic, true);
    if (ports < 2) continue;
    linter.note("nics-merge", nic->position,
                "NCCL merges the " + std::to_string(ports) + " nets of this <nic> into " +
                    (ports > kMaxMerged ? "devices of " + std::to_string(kMaxMerged) : "one device"),
                fix);
  }
  for (const XmlNode* pci : linter.all("pci")) {
    if (pci->parent == nullptr || !isNicPci(linter, *pci)) continue;
    for (const XmlNode* sibling : pci->parent->children) {
      if (sibling == pci) break;
      if (sibling->name != "pci" || !isNicPci(linter, *sibling) || !sameCard(*pci, *sibling)) continue;
      linter.note(
          "nics-merge", pci->position,
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
      linter.note("virtual-nic", nic->position,
                  "a <nic> without <pci>: NCCL takes it for a virtual device, 5000 GB/s from its <cpu>",
                  "if it is a card, put it into a <pci> with an address and a class");
    }
    if (added || other->second == nic->parent || !told.insert(nic->parent).second) continue;
    linter.error("virtual-nic-shared", nic->position,
                 "a <nic> without <pci> in a second <cpu>: NCCL hangs its nets under the <cpu> of line " +
                     std::to_string(other->second->position.line),
                 "put it into a <pci> with an address and a class");
  }
}

struct HostDevices {
  const XmlNode* cpu = nullptr;  // the first <cpu> of the host
  bool gpu = false;
  bool net = false;
};

// In an NVLink domain of several hosts, NCCL reads the paths from each GPU to the NICs, also those of a GPU
// that reaches none.
void lintHostsWithoutNic(Linter& linter) {
  std::map<std::string, HostDevices> hosts;
  bool any_net = false;
  for (const XmlNode* cpu : linter.all("cpu"))
    if (HostDevices& host = hosts[hostOf(*cpu)]; host.cpu == nullptr) host.cpu = cpu;
  for (const XmlNode* gpu : linter.all("gpu")) hosts[hostOf(*gpu)].gpu = true;
  for (const XmlNode* net : linter.all("net")) {
    hosts[hostOf(*net)].net = true;
    any_net = true;
  }
  for (const auto& [hash, host] : hosts) {
    if (!any_net || host.net || !host.gpu) continue;
    linter.error("host-without-nic", host.cpu->position,
                 "host " + inQuotes(hash) +
                     " has GPUs and no NIC, while another host has NICs; NCCL crashes at the init of such an "
                     "NVLink domain",
                 "give that host a NIC, or leave it out");
  }
}

}  // namespace

void lintNets(Linter& linter) {
  for (const XmlNode* net : linter.all("net")) lintNet(linter, *net);
  lintLeftOut(linter, "net-speed", {"speed"}, "400000 (--nic-speed)");
  lintLeftOut(linter, "net-gdr", {"gdr"}, "1");
  lintLeftOut(linter, "net-without-dev", {"dev"}, "the order of the file");
  lintLeftOut(linter, "net-incomplete", {"port", "guid"}, "port 1 and a guid for each");
  lintHostsWithoutNic(linter);
  for (const XmlNode* nic : linter.all("nic")) lintNicPlace(linter, *nic);
  lintDuplicateDevs(linter);
  lintDuplicateNames(linter);
  lintMerging(linter);
  lintVirtual(linter);
}

}  // namespace railwise::topo
