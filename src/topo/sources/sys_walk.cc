#include "topo/sources/sys_walk.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdlib>

#include "base/pci.h"
#include "base/text/text_layout.h"
#include "topo/machine/fusion.h"

namespace railwise::topo {
namespace {

constexpr const char* kIds[] = {"vendor", "device", "subsystem_vendor", "subsystem_device"};
constexpr std::string_view kBroadcom = "0x1000";  // the vendor id of Broadcom's switches (formerly LSI's)

// The number before "GT/s". A text that cannot be read counts as infinitely fast.
float gigatransfers(const std::string& text) {
  char* end = nullptr;
  const float value = std::strtof(text.c_str(), &end);
  return end == text.c_str() ? FLT_MAX : value;
}

// The link generation that NVML would report, derived from the kernel's speed; one that is not in the table
// counts as the one behind it. 0: not known.
std::size_t linkGeneration(const std::string& speed) {
  const float value = gigatransfers(speed);
  constexpr float kTolerance = 0.01F;
  for (std::size_t i = 0; i < kPcieGenerations.size(); ++i)
    if (std::fabs(kPcieGenerations[i].gigatransfers - value) < kTolerance) return i + 1;
  const bool beyond = value > kPcieGenerations.back().gigatransfers && value < FLT_MAX;
  return beyond ? kPcieGenerations.size() + 1 : 0;
}

// The number of lanes. 0: not known; a device that does not know its width reports 63 or 255.
int lanes(const std::string& width) {
  constexpr long kWidest = 32;
  const long value = std::strtol(width.c_str(), nullptr, 10);
  return value > 0 && value <= kWidest ? static_cast<int>(value) : 0;
}

// NVML's ids have no leading zeros; the kernel's ids have four digits.
std::string shortHex(const std::string& id) {
  return formatText("0x%lx", std::strtoul(id.c_str(), nullptr, 16));
}

bool isAbove(const XmlNode* candidate, const XmlNode* node) {
  while (node != nullptr && node != candidate) node = node->parent;
  return node != nullptr;
}

// Is it the class of a network device, a GPU or an accelerator?
bool isEndpoint(std::string_view device_class) {
  return device_class.starts_with("0x02") || device_class.starts_with("0x03") ||
         device_class.starts_with("0x12");
}

bool sameAttributes(const std::vector<XmlAttribute>& one, const std::vector<XmlAttribute>& other) {
  return std::equal(
      one.begin(), one.end(), other.begin(), other.end(),
      [](const XmlAttribute& a, const XmlAttribute& b) { return a.name == b.name && a.value == b.value; });
}

}  // namespace

XmlNode* SysWalk::pciNode(XmlDocument& document, const std::string& busid) {
  if (XmlNode* known = document.find("pci", "busid", busid)) return known;
  XmlNode* pci = document.add(nullptr, "pci");
  pci->set("busid", busid);
  return pci;
}

std::string SysWalk::fillPci(XmlDocument& document, XmlNode* pci) {
  while (pci->name == "pci") {
    const std::optional<std::string> where = path(pci->get("busid"));
    fillAttributes(*pci, where);
    addBroadcomLinks(document, *pci);
    if (pci->parent == nullptr) {
      XmlNode* parent = parentOf(document, where);
      if (isAbove(pci, parent)) {
        return "the devices above " + pci->get("busid") + " go in circles";
      }
      insertByBusId(*parent, pci);
    }
    pci = pci->parent;
  }
  if (pci->name == "cpu") fillCpu(*pci);
  return {};
}

XmlNode* SysWalk::addCpu(XmlDocument& document, const std::string& numaid) const {
  XmlNode* cpu = document.add(document.system(), "cpu");
  cpu->set("host_hash", machine_.host_hash);
  cpu->set("numaid", numaid);
  return cpu;
}

std::string SysWalk::classOf(const std::string& busid) {
  const std::optional<std::string>& where = path(busid);
  return where ? attribute(*where, "class") : std::string();
}

void SysWalk::fillAttributes(XmlNode& pci, const std::optional<std::string>& path) {
  const auto [known, fresh] = filled_.try_emplace(pci.get("busid"));
  Filled& filled = known->second;
  if (!fresh && sameAttributes(pci.attributes, filled.after)) return;
  if (!fresh && sameAttributes(pci.attributes, filled.before)) {
    pci.attributes = filled.after;
    return;
  }
  filled.before = pci.attributes;
  askForAttributes(pci, path);
  filled.after = pci.attributes;
}

// The class always comes from the machine. Other attributes come from it only if the topology file does not
// have them.
void SysWalk::askForAttributes(XmlNode& pci, const std::optional<std::string>& path) {
  if (path) {
    if (const std::string& device_class = attribute(*path, "class"); !device_class.empty()) {
      pci.set("class", device_class);
    }
  }
  const std::string device_class = pci.get("class");
  const bool nvml = settings_.nccl.has(NcclRule::kLinkFromNvml) &&
                    (device_class.empty() || device_class.starts_with("0x03")) &&
                    machine_.nvml_gpus.count(pci.get("busid")) != 0;
  if (machine_.endpoint_ids || !isEndpoint(device_class)) fillIds(pci, path, nvml);
  if (nvml) {
    fillLinkFromNvml(pci, path);
  } else if (path) {
    fillLinkFromSys(pci, *path);
  } else {
    pci.setIfUnset("link_speed", "");
    pci.setIfUnset("link_width", "");
  }
}

void SysWalk::fillIds(XmlNode& pci, const std::optional<std::string>& path, bool nvml) {
  if (!path) return;
  for (const char* id : kIds) {
    const std::string& value = attribute(*path, id);
    if (!value.empty()) pci.setIfUnset(id, nvml ? shortHex(value) : value);
  }
}

// Uses the lower speed and the smaller width of the device and the port above it. The port of a root bus has
// no such files, so its speed counts as infinite and its width as 0.
void SysWalk::fillLinkFromSys(XmlNode& pci, const std::string& path) {
  const std::string& speed = attribute(path, "max_link_speed");
  const std::string port = path.substr(0, path.rfind('/'));
  const std::string& port_speed = attribute(port, "max_link_speed");
  pci.setIfUnset("link_speed", gigatransfers(port_speed) < gigatransfers(speed) ? port_speed : speed);
  const long width = std::strtol(attribute(path, "max_link_width").c_str(), nullptr, 0);
  const long port_width = std::strtol(attribute(port, "max_link_width").c_str(), nullptr, 0);
  pci.setIfUnset("link_width", std::to_string(static_cast<int>(std::min(width, port_width))));
}

// Since 2.30.7 NCCL asks NVML for the current link of a GPU. That is the kernel's current_link_*; if it is
// missing, max_link_* is used instead. If NVML does not know, NCCL writes "16.0 GT/s", a spelling that its
// own graph code reads as Gen3 (since 2.31 "16.0 GT/s PCIe"), and 16 lanes. For generations that NCCL does
// not know it writes nothing.
void SysWalk::fillLinkFromNvml(XmlNode& pci, const std::optional<std::string>& path) {
  constexpr const char* kMistaken = "16.0 GT/s";
  constexpr int kDefaultWidth = 16;
  std::size_t generation = path ? linkGeneration(attribute(*path, "current_link_speed")) : 0;
  if (generation == 0 && path) generation = linkGeneration(attribute(*path, "max_link_speed"));
  constexpr std::size_t kUnknownAsGen4 = 4;
  if (generation == 0 && settings_.nccl.has(NcclRule::kLinkSpelling)) generation = kUnknownAsGen4;
  if (generation == 0) pci.setIfUnset("link_speed", kMistaken);
  else if (generation <= kPcieGenerations.size())
    pci.setIfUnset("link_speed", kPcieGenerations[generation - 1].text);
  int width = path ? lanes(attribute(*path, "current_link_width")) : 0;
  if (width == 0 && path) width = lanes(attribute(*path, "max_link_width"));
  pci.setIfUnset("link_width", std::to_string(width != 0 ? width : kDefaultWidth));
}

// Broadcom's driver lists, for each switch, the switches that it reaches directly (ncclOsGetBcmLinks).
void SysWalk::addBroadcomLinks(XmlDocument& document, XmlNode& pci) {
  if (pci.get("vendor") != kBroadcom) return;
  const std::string busid = pci.get("busid");
  if (busid.find('/') != std::string::npos) return;
  for (const std::string& peer : tree_.list("/sys/kernel/pci_switch_link/virtual_switch_links/" + busid)) {
    if (peer.size() != kBusIdLength || !path(peer)) continue;
    if (pci.child("pcilink", "target", peer) == nullptr) document.add(&pci, "pcilink")->set("target", peer);
  }
}

// Does what ncclTopoGetXmlFromCpu does.
void SysWalk::fillCpu(XmlNode& cpu) const {
  if (!cpu.has("affinity")) {
    const auto node = static_cast<unsigned>(std::strtoul(cpu.get("numaid").c_str(), nullptr, 0));
    cpu.set("affinity", sysfs::nodeMask(tree_, std::to_string(node)));
  }
  cpu.setIfUnset("arch", machine_.cpu.arch);
  if (machine_.cpu.arch != "x86_64") return;
  cpu.setIfUnset("vendor", machine_.cpu.vendor);
  if (cpu.has("familyid")) return;
  const bool as_in_manuals = settings_.nccl.has(NcclRule::kCpuidFamily);
  const CpuIdentity identity = as_in_manuals ? familyOfManuals(machine_.cpu) : machine_.cpu;
  cpu.set("familyid", std::to_string(identity.family));
  cpu.set("modelid", std::to_string(identity.model));
}

XmlNode* SysWalk::parentOf(XmlDocument& document, const std::optional<std::string>& path) {
  if (path) return parentOnBus(document, *path);
  if (XmlNode* unknown = document.find("cpu", "numaid", "-1")) return unknown;
  return addCpu(document, "-1");
}

// Goes up two bridges per device: a switch's downstream port, then its upstream port, which stands for the
// switch. If the folder above is not a PCI device, it is the root complex, and the parent is the NUMA node
// that the device names.
XmlNode* SysWalk::parentOnBus(XmlDocument& document, const std::string& path) {
  const std::vector<std::string> above = sysfs::busIdsAbove(path);
  constexpr std::size_t kStep = 2;
  if (above.size() >= kStep) return pciNode(document, above[kStep - 1]);
  const std::string& numa = attribute(path, "numa_node");
  if (XmlNode* cpu = document.system()->child("cpu", "numaid", numa)) return cpu;
  return addCpu(document, numa);
}

const std::optional<std::string>& SysWalk::path(const std::string& busid) {
  const auto known = paths_.find(busid);
  if (known != paths_.end()) return known->second;
  return paths_.emplace(busid, sysfs::pciPath(tree_, busid)).first->second;
}

const std::string& SysWalk::attribute(const std::string& folder, const std::string& file) {
  const std::string key = folder + "/" + file;
  const auto known = attributes_.find(key);
  if (known != attributes_.end()) return known->second;
  return attributes_.emplace(key, sysfs::attribute(tree_, folder, file)).first->second;
}

}  // namespace railwise::topo
