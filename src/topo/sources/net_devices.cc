#include "topo/sources/net_devices.h"

#include <endian.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "topo/document/bus_id.h"
#include "topo/sources/net_places.h"
#include "topo/sources/pci_devices.h"

namespace railwise::topo {
namespace {

constexpr char kFolder[] = "/sys/class/infiniband/";
constexpr float kMaxGbps = 1e6F;

struct Port {
  NetDevice device;
  NetPlace place;
  std::string path;    // what the plugin tells NCCL; "": no PCI place
  bool net_ib = true;  // else of another plugin, which merges nothing
};

void remark(std::vector<std::string>* remarks, std::string text) {
  if (remarks != nullptr) remarks->push_back(std::move(text));
}

// "400 Gb/sec (4X NDR)" -> 400000: the kernel multiplies lanes and signalling rate as net_ib does.
int rateMbps(const std::string& rate) {
  const float gbps = std::strtof(rate.c_str(), nullptr);
  return gbps > 0 && gbps < kMaxGbps ? static_cast<int>(gbps * 1000 + 0.5F) : 0;
}

// net_ib takes ports whose link layer is InfiniBand or Ethernet. The kernel calls EFA's "Unknown"; a tree
// recorded without the file tells by the vendor.
bool drivenByNetIb(const FileTree& tree, const std::string& port, const std::string& device) {
  const std::string layer = sysAttribute(tree, port, "link_layer");
  if (!layer.empty()) return layer == "InfiniBand" || layer == "Ethernet";
  constexpr std::string_view kAmazon = "0x1d0f";
  return sysAttribute(tree, device, "vendor") != kAmazon;
}

// 4: RNIC, a device of iWARP, whose link layer is Ethernet too.
bool isIwarp(const FileTree& tree, const std::string& device) {
  return tree.read(device + "/node_type").value_or("").starts_with("4:");
}

std::vector<int> portNumbers(const FileTree& tree, const std::string& device) {
  std::vector<int> ports;
  for (const std::string& name : tree.list(device + "/ports")) {
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size() && number > 0) ports.push_back(number);
  }
  std::sort(ports.begin(), ports.end());
  return ports;
}

// The verbs port is part of the name where Railwise tells two ports apart; net_ib gives both the same.
std::string nameOf(const std::string& device, int port, const Settings& settings) {
  return settings.net_ib || port == 1 ? device : device + ":" + std::to_string(port);
}

// Software devices are where nobody looks for them: what NCCL is told is said, and where that is not the
// card.
void remarkSoftware(const std::string& name, const NetPlace& place, const Settings& settings,
                    std::vector<std::string>* remarks) {
  const std::string what =
      name + " is Soft-RoCE or soft-iWARP" + (place.interface.empty() ? "" : " on " + place.interface);
  if (!place.path.empty()) {
    remark(remarks, what + ": placed at that interface's card, " + std::string(baseName(place.path)) +
                        ", as Railwise's plugin tells NCCL");
  } else if (settings.net_ib) {
    remark(remarks, what + ": /sys has no PCI place for it, and NCCL puts it at the first CPU");
  } else {
    remark(remarks, what + ", which is on no PCI device: NCCL puts it at the first CPU");
  }
}

void addPorts(const FileTree& tree, const std::string& name, const Settings& settings,
              const NetDefaults& defaults, std::vector<Port>& ports, std::vector<std::string>* remarks) {
  constexpr std::string_view kActive = "4:";  // IB_PORT_ACTIVE
  const std::string folder = kFolder + name;
  const NetPlace place = netPlace(tree, name, settings);
  const bool iwarp = !settings.net_ib && isIwarp(tree, folder);  // all one to net_ib
  bool active = false;
  for (const int number : portNumbers(tree, folder)) {
    const std::string port = folder + "/ports/" + std::to_string(number);
    if (!tree.read(port + "/state").value_or("").starts_with(kActive)) continue;
    if (!active && place.software) remarkSoftware(name, place, settings, remarks);
    active = true;
    Port found;
    found.place = place;
    found.net_ib = drivenByNetIb(tree, port, place.path);
    found.path = found.net_ib ? place.told_path : place.path;
    found.device.name = nameOf(name, number, settings);
    if (isPciDevice(tree, found.path)) found.device.busid = baseName(found.path);
    // NCCL would lose them (net/device/device.cc, fuseDevices).
    found.device.can_fuse = settings.net_ib || !found.net_ib || !found.path.empty();
    found.device.port = number;
    found.device.speed_mbps = rateMbps(sysAttribute(tree, port, "rate"));
    if (found.device.speed_mbps == 0) found.device.speed_mbps = defaults.mbps;
    found.device.gdr = defaults.gdr && (settings.net_ib || (!place.software && !iwarp));
    found.device.link = iwarp ? "iWARP" : sysAttribute(tree, port, "link_layer");
    // net_ib and Railwise pass the GUID as it lies in memory: in the byte order of the wire. A tree without
    // link layers is one whose GUIDs have been replaced by numbers, which are taken as they are; only whether
    // two are equal counts.
    const uint64_t guid = parseGuid(sysAttribute(tree, folder, "sys_image_guid"));
    found.device.guid = found.device.link.empty() ? guid : htobe64(guid);
    ports.push_back(std::move(found));
  }
  if (!active) remark(remarks, name + " has no active port: NCCL does not use it");
}

// ncclIbCompareDevs: by PCI address; those without a place last.
bool before(const Port& a, const Port& b) {
  const std::string& first = a.place.path;
  const std::string& second = b.place.path;
  if (first.empty() || second.empty()) return !first.empty() && second.empty();
  return busIdToNumber(baseName(first)) < busIdToNumber(baseName(second));
}

// ncclIbGetRealPort: earlier devices on the same card (net_ib, merging VFs: on the same bus) count.
void numberPorts(std::vector<Port>& ports, const Settings& settings) {
  const std::size_t tail = !settings.net_ib ? 0 : settings.ib_merge_vfs != 0 ? 4 : 1;  // "00.0" or "0"
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const std::string& path = ports[i].path;
    if (!ports[i].net_ib || path.empty() || path.size() < tail) continue;
    const std::string_view card = std::string_view(path).substr(0, path.size() - tail);
    for (std::size_t earlier = 0; earlier < i; ++earlier) {
      if (ports[earlier].net_ib && ports[earlier].path.starts_with(card)) ++ports[i].device.port;
    }
  }
}

}  // namespace

uint64_t parseGuid(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != ':') digits += c;
  }
  uint64_t guid = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), guid, 16);
  return error == std::errc() && end == digits.data() + digits.size() ? guid : 0;
}

std::vector<NetDevice> netDevices(const FileTree& tree, const Settings& settings, const NetDefaults& defaults,
                                  std::vector<std::string>* remarks) {
  std::vector<Port> ports;
  for (const std::string& name : tree.list(kFolder)) {
    addPorts(tree, name, settings, defaults, ports, remarks);
  }
  if (ports.size() > kMaxNetDevices) {
    remark(remarks, "of " + std::to_string(ports.size()) + " network ports NCCL uses the first " +
                        std::to_string(kMaxNetDevices));
    ports.resize(kMaxNetDevices);
  }
  if (settings.ib_device_pci_order != 0) std::stable_sort(ports.begin(), ports.end(), before);
  numberPorts(ports, settings);
  std::vector<NetDevice> devices;
  for (Port& port : ports) devices.push_back(std::move(port.device));
  return devices;
}

}  // namespace railwise::topo
