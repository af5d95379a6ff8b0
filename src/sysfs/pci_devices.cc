#include "sysfs/pci_devices.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/pci.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"

namespace railwise::sysfs {
namespace {

constexpr std::string_view kDisplayClass = "0x03";
constexpr std::string_view kAcceleratorClass = "0x1200";
constexpr std::size_t kMaxAttribute = 255;  // MAX_STR_LEN in NCCL
constexpr std::size_t kBusLength = 7;       // "0000:00"

// The real folders of all devices: from the list of the PCI bus, or, if the tree was recorded without that
// list, from the root buses, as NCCL looks devices up.
std::vector<std::string> deviceFolders(const FileTree& tree) {
  std::vector<std::string> folders;
  const auto add = [&](const std::string& path) {
    const Outcome<std::string> real = isBusId(baseName(path)) ? tree.realPath(path) : Error{};
    if (real.ok() && isBusId(baseName(*real))) folders.push_back(*real);
  };
  for (const std::string& name : tree.list("/sys/bus/pci/devices")) add("/sys/bus/pci/devices/" + name);
  if (!folders.empty()) return folders;
  for (const std::string& bus : tree.list("/sys/class/pci_bus")) {
    const std::string above = "/sys/class/pci_bus/" + bus + "/../..";
    for (const std::string& name : tree.list(above)) {
      if (name.starts_with(bus)) add(above + "/" + name);
    }
  }
  return folders;
}

}  // namespace

std::string attribute(const FileTree& tree, std::string_view folder, std::string_view file) {
  std::string value = tree.read(std::string(folder) + "/" + std::string(file)).value_or("");
  if (value.size() > kMaxAttribute) value.resize(kMaxAttribute);
  if (!value.empty()) value.pop_back();
  return value.substr(0, value.find('\0'));  // NCCL has C strings there
}

std::optional<std::string> pciPath(const FileTree& tree, std::string_view busid) {
  if (busid.size() < kBusIdLength) return std::nullopt;
  const std::string lower = lowerCase(busid.substr(0, kBusIdLength));
  if (lower.find('/') != std::string::npos) return std::nullopt;
  const Outcome<std::string> path =
      tree.realPath("/sys/class/pci_bus/" + lower.substr(0, kBusLength) + "/../../" + lower);
  if (!path.ok()) return std::nullopt;
  return *path;
}

bool isPciDevice(const FileTree& tree, std::string_view folder) {
  const Outcome<std::string> subsystem = tree.realPath(std::string(folder) + "/subsystem");
  return subsystem.ok() && baseName(*subsystem) == "pci";
}

std::string nodeMask(const FileTree& tree, std::string_view node) {
  std::string mask = tree.read("/sys/devices/system/node/node" + std::string(node) + "/cpumap").value_or("");
  if (mask.size() > kMaxAttribute - 1) mask.resize(kMaxAttribute - 1);
  while (!mask.empty() && (mask.back() == '\n' || mask.back() == '\r')) mask.pop_back();
  return mask.substr(0, mask.find('\0'));
}

std::vector<int> numaNodes(const FileTree& tree) {
  std::vector<int> nodes;
  for (const std::string& name : tree.list("/sys/devices/system/node")) {
    if (!name.starts_with("node")) continue;
    if (const auto node = numberIn<int>(name.substr(4)); node && *node >= 0) nodes.push_back(*node);
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

bool PciDevice::isNvidiaGpu() const {
  return vendor == pci::kNvidia && device_class.starts_with(kDisplayClass);
}

bool PciDevice::isAmdGpu() const {
  return vendor == pci::kAmd &&
         (device_class.starts_with("0x0380") || device_class.starts_with(kAcceleratorClass));
}

namespace {

// The devices whose class `wanted` accepts.
template <typename Wanted>
std::vector<PciDevice> devicesOf(const FileTree& tree, Wanted wanted) {
  std::vector<PciDevice> devices;
  for (const std::string& folder : deviceFolders(tree)) {
    PciDevice device;
    device.device_class = attribute(tree, folder, "class");
    if (!wanted(device.device_class)) continue;
    device.busid = baseName(folder);
    device.path = folder;
    device.vendor = attribute(tree, folder, "vendor");
    device.device = attribute(tree, folder, "device");
    const std::string node = attribute(tree, folder, "numa_node");
    if (!node.empty()) device.numa = std::max(-1, static_cast<int>(std::strtol(node.c_str(), nullptr, 10)));
    devices.push_back(std::move(device));
  }
  std::stable_sort(devices.begin(), devices.end(), [](const PciDevice& a, const PciDevice& b) {
    return busIdToNumber(a.busid) < busIdToNumber(b.busid);
  });
  return devices;
}

}  // namespace

std::vector<PciDevice> pciDevices(const FileTree& tree) {
  return devicesOf(tree, [](const std::string&) { return true; });
}

// Most devices of a server are bridges, so the class file alone excludes most devices.
std::vector<PciDevice> gpuDevices(const FileTree& tree) {
  std::vector<PciDevice> devices = devicesOf(tree, [](const std::string& device_class) {
    return device_class.starts_with(kDisplayClass) || device_class.starts_with(kAcceleratorClass);
  });
  std::erase_if(devices, [](const PciDevice& device) { return !device.isGpu(); });
  return devices;
}

bool anyOfNvidia(const std::vector<PciDevice>& gpus) {
  return std::any_of(gpus.begin(), gpus.end(),
                     [](const PciDevice& gpu) { return gpu.vendor == pci::kNvidia; });
}

bool runsRccl(const FileTree& tree) { return moduleLoaded(tree, "amdgpu") && !moduleLoaded(tree, "nvidia"); }

bool moduleLoaded(const FileTree& tree, const std::string& name) {
  constexpr std::size_t kMostBytes = 1UL << 20;  // a machine has some hundred modules, in as many lines
  if (tree.exists("/sys/module/" + name)) return true;
  for (const std::string& line : linesOf(tree.read("/proc/modules", kMostBytes).value_or("")))
    if (line.starts_with(name + " ")) return true;
  return false;
}

std::string nearestGpu(const FileTree& tree, const std::string& path) {
  const std::vector<std::string> way = splitPath(path);
  std::string nearest;
  std::ptrdiff_t most = -1;
  for (const PciDevice& gpu : gpuDevices(tree)) {
    const std::vector<std::string> its = splitPath(gpu.path);
    const auto parted = std::mismatch(way.begin(), way.end(), its.begin(), its.end());
    if (parted.first - way.begin() <= most) continue;
    most = parted.first - way.begin();
    nearest = gpu.busid;
  }
  return nearest;
}

int64_t pciOrder(std::string_view path) {
  const std::string name(baseName(path));
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned function = 0;
  char rest = 0;
  if (std::sscanf(name.c_str(), "%x:%x:%x.%x%c", &domain, &bus, &device, &function, &rest) != 4) return -1;
  return (static_cast<int64_t>(domain) << 20) | (bus << 12) | (device << 4) | function;
}

std::string functionIn(std::string path) {
  while (!path.empty() && pciOrder(path) < 0) {
    const std::size_t slash = path.rfind('/');
    path.resize(slash != std::string::npos ? slash : 0);
  }
  return path;
}

std::vector<std::string> busIdsAbove(std::string_view path) {
  std::vector<std::string> above;
  const std::vector<std::string> components = splitPath(path);
  for (std::size_t i = components.size(); i-- > 1;) {
    if (!isBusId(components[i - 1])) break;
    above.push_back(components[i - 1]);
  }
  return above;
}

namespace {

constexpr double kMostGigatransfers = 1024;
constexpr int kMostLanes = 32;

// `which`: "current" or "max".
PciLink linkOf(const FileTree& tree, const std::string& path, const std::string& which) {
  const std::string width = firstLine(tree, path + "/" + which + "_link_width");
  PciLink link;
  link.speed = firstLine(tree, path + "/" + which + "_link_speed");
  const std::string& speed = link.speed;
  const auto rate = std::from_chars(speed.data(), speed.data() + speed.size(), link.gigatransfers);
  const auto lanes = std::from_chars(width.data(), width.data() + width.size(), link.lanes);
  const bool fits = link.gigatransfers > 0 && link.gigatransfers <= kMostGigatransfers && link.lanes > 0 &&
                    link.lanes <= kMostLanes;
  return rate.ec == std::errc() && lanes.ec == std::errc() && fits ? link : PciLink();
}

}  // namespace

uint32_t PciLink::mbps() const {
  // From this rate on PCIe sends 130 bits for 128 (generations 3 to 5); below it 10 bits for 8. Generation 6
  // (64 GT/s) sends flits without a line code, whose other costs are of the same size.
  constexpr double kGeneration3 = 8.0;
  constexpr double kNewCode = 128.0 / 130.0;
  constexpr double kOldCode = 8.0 / 10.0;
  const double code = gigatransfers < kGeneration3 ? kOldCode : kNewCode;
  return static_cast<uint32_t>(std::lround(gigatransfers * lanes * code * 1000));
}

std::string PciLink::text() const { return formatText("%g GT/s x%d", gigatransfers, lanes); }

PciLink currentLink(const FileTree& tree, const std::string& path) { return linkOf(tree, path, "current"); }
PciLink bestLink(const FileTree& tree, const std::string& path) { return linkOf(tree, path, "max"); }

PciLink bestLinkInSlot(const FileTree& tree, const std::string& path) {
  PciLink link = bestLink(tree, path);
  const std::string above = path.substr(0, path.rfind('/'));
  const PciLink slot = isBusId(baseName(above)) ? bestLink(tree, above) : PciLink();
  if (!slot.known()) return link;
  link.gigatransfers = std::min(link.gigatransfers, slot.gigatransfers);
  link.lanes = std::min(link.lanes, slot.lanes);
  return link;
}

PciLink narrowestLink(const FileTree& tree, const std::string& path) {
  PciLink narrowest;
  std::string folder = path;
  while (isBusId(baseName(folder))) {
    const PciLink link = currentLink(tree, folder);
    if (link.known() && (!narrowest.known() || link.mbps() < narrowest.mbps())) narrowest = link;
    folder.resize(folder.rfind('/'));
  }
  return narrowest;
}

}  // namespace railwise::sysfs
