#include "topo/sources/net_devices.h"

#include <endian.h>

#include <algorithm>

#include "base/pci.h"
#include "base/text/words.h"
#include "sysfs/pci_devices.h"
#include "sysfs/rdma_devices.h"

namespace railwise::topo {
namespace {

constexpr char kFolder[] = "/sys/class/infiniband/";

struct Port {
  NetDevice device;
  sysfs::RdmaPlace place;
  std::string path;    // the path that the plugin reports to NCCL; "": no PCI place
  bool net_ib = true;  // false: the port belongs to another plugin, which merges nothing
};

void remark(std::vector<std::string>* remarks, std::string text) {
  if (remarks != nullptr) remarks->push_back(std::move(text));
}

// net_ib uses ports whose link layer is InfiniBand or Ethernet. For EFA the kernel reports "Unknown". If a
// recorded tree lacks the file, the vendor decides.
bool drivenByNetIb(const sysfs::FileTree& tree, const std::string& port, const std::string& device) {
  const std::string layer = sysfs::attribute(tree, port, "link_layer");
  if (!layer.empty()) return layer == "InfiniBand" || layer == "Ethernet";
  return sysfs::attribute(tree, device, "vendor") != pci::kAmazon;
}

// Railwise adds the port number to the name to distinguish two ports. net_ib gives both ports the same name.
std::string nameOf(const std::string& device, int port, const Settings& settings) {
  return settings.net_ib || port == 1 ? device : device + ":" + std::to_string(port);
}

// Adds a remark that says where NCCL places a software device: at the card of its network interface, or at
// the first CPU.
void remarkSoftware(const std::string& name, const sysfs::RdmaPlace& place, const Settings& settings,
                    std::vector<std::string>* remarks) {
  const std::string what =
      name + " is Soft-RoCE or soft-iWARP" + (place.interface.empty() ? "" : " on " + place.interface);
  if (!place.path.empty()) {
    remark(remarks, what + ": placed at that interface's card, " + std::string(sysfs::baseName(place.path)) +
                        ", as Railwise's plugin tells NCCL");
  } else if (settings.net_ib) {
    remark(remarks, what + ": /sys has no PCI place for it, and NCCL puts it at the first CPU");
  } else {
    remark(remarks, what + ", which is on no PCI device: NCCL puts it at the first CPU");
  }
}

// The PCI path that NCCL gets. All functions of a card count as one device, and with NCCL_IB_MERGE_VFS its
// virtual functions too. net_ib uses function 0 of device 0 on the bus, whatever that is.
std::string toldPath(const sysfs::FileTree& tree, std::string path, const Settings& settings) {
  if (!settings.net_ib) return sysfs::cardOf(tree, path, settings.ib_merge_vfs != 0);
  if (path.size() < kBusIdLength || !isBusId(sysfs::baseName(path))) return path;
  path.back() = '0';
  if (settings.ib_merge_vfs != 0) path[path.size() - 3] = path[path.size() - 4] = '0';
  return path;
}

void addPorts(const sysfs::FileTree& tree, const std::string& name, const Settings& settings,
              const NetDefaults& defaults, std::vector<Port>& ports, std::vector<std::string>* remarks) {
  constexpr std::string_view kActive = "4:";  // IB_PORT_ACTIVE
  const std::string folder = kFolder + name;
  sysfs::RdmaPlace place = sysfs::rdmaPlace(tree, name);
  if (settings.net_ib) place.path = place.linked;                     // net_ib uses the link as it is
  const bool iwarp = !settings.net_ib && sysfs::isIwarp(tree, name);  // net_ib does not distinguish iWARP
  bool active = false;
  for (const int number : sysfs::rdmaPorts(tree, name)) {
    const std::string port = folder + "/ports/" + std::to_string(number);
    if (!tree.read(port + "/state").value_or("").starts_with(kActive)) continue;
    if (!settings.usesPort(name, number)) {
      remark(remarks, settings.leftOutText(nameOf(name, number, settings)));
      active = true;
      continue;
    }
    if (!active && place.software) remarkSoftware(name, place, settings, remarks);
    active = true;
    Port found;
    found.place = place;
    found.net_ib = drivenByNetIb(tree, port, place.path);
    found.path = found.net_ib ? toldPath(tree, place.path, settings) : place.path;
    found.device.name = nameOf(name, number, settings);
    if (sysfs::isPciDevice(tree, found.path)) found.device.busid = sysfs::baseName(found.path);
    // NCCL would lose such devices (net/device/device.cc, fuseDevices).
    found.device.can_fuse = settings.net_ib || !found.net_ib || !found.path.empty();
    found.device.port = number;
    found.device.speed_mbps = sysfs::rateMbps(sysfs::attribute(tree, port, "rate"));
    found.device.speed_assumed = found.device.speed_mbps == 0;
    if (found.device.speed_assumed) found.device.speed_mbps = defaults.mbps;
    found.device.gdr = defaults.gdr && (settings.net_ib || (!place.software && !iwarp));
    found.device.link = iwarp ? "iWARP" : sysfs::attribute(tree, port, "link_layer");
    // net_ib and Railwise pass the GUID on in its memory order, which is the byte order of the network. In a
    // tree without link layers the GUIDs were replaced by numbers, which are used unchanged: it only matters
    // whether two are equal.
    const uint64_t guid = parseGuid(sysfs::attribute(tree, folder, "sys_image_guid"));
    found.device.guid = found.device.link.empty() ? guid : htobe64(guid);
    ports.push_back(std::move(found));
  }
  if (!active) remark(remarks, name + " has no active port: NCCL does not use it");
}

// As ncclIbCompareDevs: by PCI address; devices without a place come last.
bool before(const Port& a, const Port& b) {
  const std::string& first = a.place.path;
  const std::string& second = b.place.path;
  if (first.empty() || second.empty()) return !first.empty() && second.empty();
  return busIdToNumber(sysfs::baseName(first)) < busIdToNumber(sysfs::baseName(second));
}

// As ncclIbGetRealPort: a port's number grows by one for each earlier device on the same card. With net_ib
// and merged VFs, devices on the same bus count.
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
  std::string digits(text);
  std::erase(digits, ':');
  return numberIn<uint64_t>(digits, 16).value_or(0);
}

std::vector<NetDevice> netDevices(const sysfs::FileTree& tree, const Settings& settings,
                                  const NetDefaults& defaults, std::vector<std::string>* remarks) {
  std::vector<Port> ports;
  const std::vector<std::string> names = tree.list(kFolder);
  for (const std::string& name : names) addPorts(tree, name, settings, defaults, ports, remarks);
  if (std::string text = settings.noDeviceText(names); !text.empty()) remark(remarks, std::move(text));
  if (ports.size() > kMaxNetDevices) {
    remark(remarks, "of " + std::to_string(ports.size()) + " network ports NCCL uses the first " +
                        std::to_string(kMaxNetDevices));
    ports.resize(kMaxNetDevices);
  }
  if (settings.ib_device_pci_order != 0) std::stable_sort(ports.begin(), ports.end(), before);
  numberPorts(ports, settings);
  std::vector<NetDevice> devices;
  std::vector<std::string> rateless;
  for (Port& port : ports) {
    if (port.device.speed_assumed) rateless.push_back(port.device.name);
    devices.push_back(std::move(port.device));
  }
  if (!rateless.empty())
    remark(remarks, tree.name() + " has no rate of " + firstItems(rateless, 4) + ": " +
                        std::to_string(defaults.mbps) + " Mb/s each are assumed (--nic-speed)");
  return devices;
}

}  // namespace railwise::topo
