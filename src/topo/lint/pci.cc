// Rules about <pci>: address, class, link, and the shape of the tree.
#include "base/pci.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "topo/graph/constants.h"
#include "topo/lint/rules.h"

namespace railwise::topo {
namespace {

bool hasChild(const XmlNode& node, std::string_view name) { return node.child(name) != nullptr; }

NodeType typeOf(const Linter& linter, const XmlNode& pci) {
  return classType(pci.get("class"), linter.document().version);
}

// Is `busid` of the form "dddd:bb:dd.f"? The domain may be longer (Intel VMD).
bool isAddress(const std::string& busid) {
  return busid.size() >= 12 && busid.size() <= 16 && isBusId(busid.substr(busid.size() - 12)) &&
         std::all_of(busid.begin(), busid.end() - 12,
                     [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; });
}

// NCCL looks for a GPU under its address, and for a NIC too if the file does not name its net.
void lintCapitals(Linter& linter, const XmlNode& pci, XmlPosition place) {
  const NodeType type = typeOf(linter, pci);
  const bool gpu = hasChild(pci, "gpu") || type == NodeType::kGpu;
  const std::string what =
      "busid " + inQuotes(pci.get("busid")) + " has capitals; NCCL compares addresses as text and ";
  if (gpu || (type == NodeType::kNic && !hasNamedNet(pci))) {
    linter.error(
        "busid-case", place,
        what + (gpu ? "adds the GPU a second time, where /sys has it" : "adds the device a second time"),
        "write it in lower case");
  } else {
    linter.warning("busid-case", place, what + "finds nothing in /sys under this one",
                   "write it in lower case");
  }
}

void lintBusid(Linter& linter, const XmlNode& pci) {
  const std::string* busid = pci.find("busid");
  if (busid == nullptr) {
    linter.error("pci-busid", pci.position, "<pci> has no busid; NCCL fails its init",
                 "write busid=\"dddd:bb:dd.f\"");
    return;
  }
  const XmlPosition place = placeOf(pci, "busid");
  const XmlNode* first = linter.pciAt(pci, *busid);
  if (!isAddress(*busid)) {
    linter.error("busid-malformed", place,
                 "busid " + inQuotes(*busid) + " is no PCI address; NCCL reads it as " +
                     busIdText(busIdToNumber(*busid)),
                 "write dddd:bb:dd.f in lower-case hexadecimal");
  } else if (*busid != lowerCase(*busid)) {
    lintCapitals(linter, pci, place);
  } else if (first != &pci) {
    const bool device = typeOf(linter, pci) != NodeType::kPci || typeOf(linter, *first) != NodeType::kPci;
    linter.add(device ? Finding::kError : Finding::kWarning, "duplicate-busid", place,
               "busid " + inQuotes(*busid) + " stands in line " + std::to_string(first->position.line) +
                   " already; NCCL finds only the first",
               "give each device its own address");
  }
}

std::vector<std::string> missingAttributes(const XmlNode& pci) {
  return missingOf(pci, {"class", "link_speed", "link_width"});
}

// Writes one note for the whole file, because such files intentionally leave everything to /sys.
void lintIncomplete(Linter& linter) {
  const XmlNode* first = nullptr;
  int others = 0;
  for (const XmlNode* pci : linter.all("pci")) {
    const std::vector<std::string> missing = missingAttributes(*pci);
    if (missing.empty()) continue;
    const std::string what = pciText(*pci) + " lacks " + listText(missing) + "; ";
    const bool made_up = pci->get("busid").starts_with("ffff") && hasChild(*pci, "pci");
    if (hasNamedNet(*pci)) {
      linter.error("pci-incomplete", pci->position,
                   what + "NCCL looks up nothing for a NIC whose <net> is described, and fails its init",
                   "write " + listText(missing));
    } else if (made_up) {
      linter.error(
          "pci-incomplete", pci->position,
          what + "NCCL finds nothing in /sys for a made-up switch; without a class it fails its init",
          "write " + listText(missing));
    } else if (hasRank(*pci)) {
      linter.warning(
          "pci-incomplete", pci->position,
          what +
              "NCCL takes them from the machine that it runs on, and PCIe Gen3 x16 where that does not tell",
          "write " + listText(missing));
    } else {
      others += first != nullptr ? 1 : 0;
      if (first == nullptr) first = pci;
    }
  }
  if (first == nullptr) return;
  const std::string more = others > 0 ? " (and " + std::to_string(others) + " more lack something)" : "";
  linter.note("pci-incomplete", first->position,
              pciText(*first) + " lacks " + listText(missingAttributes(*first)) + more +
                  "; NCCL takes it from /sys, and fails if the device is not there",
              "write it if the address is made up or the file is to stand for itself");
}

constexpr float kGen3 = 8;  // GT/s; NCCL assumes this for every speed that it cannot read

std::string bandwidthText(float bandwidth) { return formatText("%g GB/s", static_cast<double>(bandwidth)); }

std::string speedFix(float gigatransfers) {
  for (const PcieGeneration& each : kPcieGenerations) {
    if (each.gigatransfers == gigatransfers) return std::string("write link_speed=\"") + each.text + "\"";
  }
  if (gigatransfers > kPcieGenerations.back().gigatransfers) {
    return "NCCL has no word for it: write \"64.0 GT/s PCIe\" and raise link_width in proportion (32 for x16 "
           "at 128 GT/s)";
  }
  return "write \"32.0 GT/s PCIe\" or another speed that PCIe has";
}

void lintLinkSpeed(Linter& linter, const XmlNode& pci) {
  const std::string* speed = pci.find("link_speed");
  if (speed == nullptr || pciSpeedKnown(*speed)) return;
  const float value = std::strtof(speed->c_str(), nullptr);
  if (value == kGen3) return;  // NCCL cannot read this speed, but its assumption (Gen3) is right
  const XmlPosition place = placeOf(pci, "link_speed");
  const std::string reading =
      " as Gen3: " + bandwidthText(pciBandwidth(*speed, intOf(pci, "link_width", 0))) + " for " +
      pciText(pci);
  if (value > 0) {
    linter.error("link-speed", place,
                 "link_speed " + inQuotes(*speed) + " is not NCCL's spelling; it reads" + reading,
                 speedFix(value));
  } else {
    linter.warning("link-speed-unknown", place,
                   "link_speed " + inQuotes(*speed) + " is no speed; NCCL takes it" + reading,
                   "write the real speed, e.g. link_speed=\"32.0 GT/s PCIe\" for Gen5");
  }
}

void lintWidth(Linter& linter, const XmlNode& pci) {
  const std::string* width = pci.find("link_width");
  if (width == nullptr) return;
  char* end = nullptr;
  const long value = std::strtol(width->c_str(), &end, 0);
  const XmlPosition place = placeOf(pci, "link_width");
  if (value < 0 || (*end != '\0' && value != 0)) {
    linter.add(value < 0 ? Finding::kError : Finding::kWarning, "bad-number", place,
               "link_width " + inQuotes(*width) + " is no width; NCCL reads " + std::to_string(value),
               "write 1, 2, 4, 8 or 16");
  } else if (value == 0) {
    linter.warning("link-width", place,
                   "link_width " + inQuotes(*width) + " is no width; NCCL takes x16 for " + pciText(pci),
                   "write the real width, e.g. link_width=\"16\"");
  }
}

bool classReadable(std::string_view text) {
  if (!text.starts_with("0x") || text.size() < 4 || text.size() > 8) return false;
  return std::all_of(text.begin() + 2, text.end(),
                     [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; });
}

void lintGpuClass(Linter& linter, const XmlNode& pci, NodeType type) {
  const XmlPosition place = placeOf(pci, "class");
  const std::string what = "class " + inQuotes(pci.get("class")) + " of " + pciText(pci);
  if (type == NodeType::kPci) {
    const bool amd = pci.get("class").starts_with("0x12") && !linter.rccl();
    linter.error("class-mismatch", place,
                 what + " makes it a switch to NCCL, which then fails its init at the <gpu> in it",
                 amd ? "write <system version=\"2\"> for RCCL, or class=\"0x030200\" for NCCL"
                     : "write class=\"0x030200\" (or 0x030000)");
  } else if (type != NodeType::kGpu) {
    linter.warning("class-mismatch", place,
                   what + " is not a GPU's, yet it has a <gpu>; NCCL takes it for a GPU",
                   "write class=\"0x030200\"");
  }
}

void lintClass(Linter& linter, const XmlNode& pci) {
  const std::string* text = pci.find("class");
  if (text == nullptr) return;
  const XmlPosition place = placeOf(pci, "class");
  const NodeType type = typeOf(linter, pci);
  if (!classReadable(*text)) {
    linter.error("class-unreadable", place,
                 "class " + inQuotes(*text) + " of " + pciText(pci) +
                     " is not of the form 0x030200; NCCL takes the device for a switch",
                 "write 0x030200 for a GPU, 0x020700 or 0x020000 for a NIC, 0x060400 for a switch");
    return;
  }
  if (hasChild(pci, "gpu")) lintGpuClass(linter, pci, type);
  const bool bridge = text->starts_with("0x06");         // the rule nic-on-bridge covers this
  const bool data_direct = text->starts_with("0x0801");  // ConnectX-8
  if (hasChild(pci, "nic") && !hasChild(pci, "gpu") && type != NodeType::kNic && !bridge && !data_direct) {
    linter.warning("class-mismatch", place,
                   "class " + inQuotes(*text) + " of " + pciText(pci) +
                       " is not a NIC's, yet it has a <nic>; NCCL takes it for a NIC",
                   "write class=\"0x020700\" (InfiniBand) or \"0x020000\" (Ethernet)");
  }
}

int gpusBelow(const Linter& linter, const XmlNode& node) {
  int count = 0;
  for (const XmlNode* pci : linter.all("pci")) {
    if (pci == &node || !(hasChild(*pci, "gpu") || typeOf(linter, *pci) == NodeType::kGpu)) continue;
    const XmlNode* up = pci->parent;
    while (up != nullptr && up != &node) up = up->parent;
    count += up == &node ? 1 : 0;
  }
  return count;
}

// Reports children that NCCL ignores.
void lintChildren(Linter& linter, const XmlNode& pci) {
  const NodeType type = typeOf(linter, pci);
  if (hasChild(pci, "pci")) {
    const int gpus = gpusBelow(linter, pci);
    const std::string lost =
        gpus > 0 ? " (GPUs below: " + std::to_string(gpus) + "; with NVLinks NCCL fails its init)" : "";
    if (hasChild(pci, "nic")) {
      linter.error("nic-drops-children", pci.position,
                   pciText(pci) + " has a <nic>, so NCCL drops the <pci> below it" + lost,
                   "put the <nic> into a <pci> of its own beside them");
    } else if (pci.has("class") && type != NodeType::kPci) {
      linter.error("class-drops-children", placeOf(pci, "class"),
                   "by its class " + inQuotes(pci.get("class")) + " " + pciText(pci) +
                       " is no switch, so NCCL drops the <pci> below it" + lost,
                   "write class=\"0x060400\"");
    }
    return;
  }
  if (hasChild(pci, "gpu") || hasChild(pci, "nic")) return;
  if (type == NodeType::kGpu && linter.describesGpus()) {
    linter.warning(
        "undescribed-device", pci.position,
        pciText(pci) +
            " is a GPU without <gpu> among others that have one; it adds nothing unless a rank of the "
            "job uses it",
        "describe it with <gpu dev sm rank gdr>, or remove it");
  } else if (type == NodeType::kNic && linter.describesNets()) {
    linter.note("undescribed-device", pci.position,
                pciText(pci) +
                    " is a NIC without <nic> among others that have one; it adds nothing unless the plugin "
                    "has a device there",
                "describe it with <nic><net .../></nic>, or remove it");
  } else if (pci.get("class").starts_with("0x12") && !linter.rccl()) {
    linter.error(
        "class-mismatch", placeOf(pci, "class"),
        "class " + inQuotes(pci.get("class")) + " of " + pciText(pci) +
            " is an AMD GPU's, which in a version 1 file makes it a switch: the file has no such GPU",
        "write <system version=\"2\"> for RCCL");
  } else if (pci.get("class").starts_with("0x0604")) {
    linter.note("empty-bridge", pci.position, pciText(pci) + " is a switch with nothing below it",
                "remove it");
  }
}

uint64_t deviceNumber(const XmlNode& pci) {
  uint64_t number = 0;
  for (const char* name : {"vendor", "device", "subsystem_vendor", "subsystem_device"})
    number = number << 16U | static_cast<uint64_t>(static_cast<uint16_t>(intOf(pci, name, 0)));
  return number;
}

// The first child whose link is faster than the link of `pci`, if the file has both speeds.
const XmlNode* fasterChild(const XmlNode& pci) {
  const auto bandwidth = [](const XmlNode& node) {
    const std::string speed = node.get("link_speed");
    return pciSpeedKnown(speed) ? pciBandwidth(speed, intOf(node, "link_width", 0)) : 0;
  };
  if (bandwidth(pci) == 0) return nullptr;
  for (const XmlNode* child : pci.children) {
    if (child->name == "pci" && bandwidth(*child) > bandwidth(pci)) return child;
  }
  return nullptr;
}

// Writes one note for the whole file, as the next rule does, because machines have many equal switches.
void lintUpstream(Linter& linter) {
  std::vector<const XmlNode*> slower;
  for (const XmlNode* pci : linter.all("pci"))
    if (fasterChild(*pci) != nullptr) slower.push_back(pci);
  if (slower.empty()) return;
  linter.note("upstream-slower", slower[0]->position,
              "the link of " + pciText(*slower[0]) + " is slower than that of " +
                  pciText(*fasterChild(*slower[0])) + " below it" + moreText(slower),
              "check link_speed and link_width of the switch");
}

void lintBroadcom(Linter& linter) {
  std::vector<const XmlNode*> joined;
  for (const XmlNode* pci : linter.all("pci")) {
    const int generation = broadcomGeneration(deviceNumber(*pci), 1);
    const bool below = pci->parent != nullptr && pci->parent->name == "pci";
    if (generation == 0 || !below) continue;
    if (broadcomGeneration(deviceNumber(*pci->parent), 0) == generation) joined.push_back(pci);
  }
  if (joined.empty()) return;
  linter.note("bcm-flattened", joined[0]->position,
              "NCCL joins the Broadcom switch " + pciText(*joined[0]) +
                  " with the one above it and counts them as one" + moreText(joined),
              "nothing to do; expect PIX instead of PXB between the devices below");
}

void lintPcilinks(Linter& linter) {
  for (const XmlNode* link : linter.all("pcilink")) {
    const std::string* target = link->find("target");
    if (target == nullptr) {
      linter.error("pcilink-target", link->position, "<pcilink> has no target; NCCL fails its init",
                   "write target=\"dddd:bb:dd.f\"");
    } else if (linter.pciAt(*link, *target) == nullptr) {
      linter.warning("pcilink-target", placeOf(*link, "target"),
                     "no <pci> has the address " + inQuotes(*target) + "; NCCL drops the link",
                     "correct the target, or remove the link");
    }
    const XmlNode& pci = *link->parent;
    if (!hasChild(pci, "nic") && (typeOf(linter, pci) == NodeType::kPci || !pci.has("class"))) continue;
    linter.error("pcilink-parent", link->position,
                 pciText(pci) + " is no switch, so NCCL fails its init at this <pcilink>",
                 "put <pcilink> into the switches that it joins");
  }
}

// Reports a guest without PCI bridges: all devices are directly under their NUMA node.
void lintFlat(Linter& linter) {
  const XmlNode* flat = nullptr;
  for (const XmlNode* cpu : linter.all("cpu")) {
    bool gpu = false;
    bool nic = false;
    for (const XmlNode* child : cpu->children) {
      if (child->name != "pci") continue;
      if (hasChild(*child, "pci")) return;
      const NodeType type = typeOf(linter, *child);
      const XmlNode* described = child->child("gpu");
      if (described != nullptr && described->child("c2c") != nullptr) return;
      gpu = gpu || described != nullptr || type == NodeType::kGpu;
      nic = nic || hasChild(*child, "nic") || type == NodeType::kNic;
    }
    if (flat == nullptr && gpu && nic) flat = cpu;
  }
  if (flat == nullptr || linter.rccl()) return;
  linter.warning("flat-machine", flat->position,
                 "GPUs and NICs hang directly under their <cpu>: every path between them is PHB, and "
                 "GPUDirect RDMA is off. Virtual machines look so when they hide their switches",
                 "on such a machine use `railwise topo generate`; where it is the truth, "
                 "NCCL_NET_GDR_LEVEL=PHB permits it");
}

}  // namespace

void lintPci(Linter& linter) {
  for (const XmlNode* pci : linter.all("pci")) {
    lintBusid(linter, *pci);
    lintLinkSpeed(linter, *pci);
    lintWidth(linter, *pci);
    lintClass(linter, *pci);
    lintChildren(linter, *pci);
  }
  lintUpstream(linter);
  lintBroadcom(linter);
  lintIncomplete(linter);
  lintPcilinks(linter);
  lintFlat(linter);
}

}  // namespace railwise::topo
