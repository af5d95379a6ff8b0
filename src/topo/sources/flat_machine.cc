#include "topo/sources/flat_machine.h"

#include <algorithm>
#include <cstdlib>

namespace railwise::topo {
namespace {

constexpr std::string_view kNetworkClass = "0x02";
constexpr std::string_view kInfinibandClass = "0x0207";

// A virtual function says "Unknown" or nothing, and 0, 63 or 255 lanes. The port above is not asked, other
// than NCCL does: a hypervisor's root port tells nothing about the link of the device that it passes through.
PciLink readLink(const FileTree& tree, const PciDevice& device) {
  for (const std::string kind : {"max", "current"}) {
    PciLink link;
    link.speed = sysAttribute(tree, device.path, kind + "_link_speed");
    constexpr long kWidest = 32;
    const long width =
        std::strtol(sysAttribute(tree, device.path, kind + "_link_width").c_str(), nullptr, 10);
    link.width = width > 0 && width <= kWidest ? static_cast<int>(width) : 0;
    if (linkSpeed(link) > 0 && link.known()) return link;
  }
  return {};
}

bool matchesId(const PciDevice& device, const std::string& id) {
  return id == device.device || id == device.vendor + ":" + device.device;
}

bool isExcluded(const PciDevice& device, const GenerateOptions& options) {
  return std::any_of(options.exclude.begin(), options.exclude.end(), [&](const std::string& what) {
    return what == device.busid || matchesId(device, what);
  });
}

std::string names(const std::vector<PciDevice>& devices) {
  std::string text;
  for (const PciDevice& device : devices) text += (text.empty() ? "" : ", ") + device.busid;
  return text;
}

// Keeps those that `wanted` takes when it takes any; says what is left out and why.
template <typename Wanted>
void prefer(std::vector<PciDevice>& nics, const std::string& kept, std::vector<std::string>& remarks,
            const Wanted& wanted) {
  const auto split = std::stable_partition(nics.begin(), nics.end(), wanted);
  if (split == nics.begin() || split == nics.end()) return;
  remarks.push_back(names({split, nics.end()}) + " left out: " + kept);
  nics.erase(split, nics.end());
}

// InfiniBand before Ethernet: where a cloud gives both, Ethernet is for storage and the control network. Of
// Ethernet devices those that do RDMA, where there are any (EFA, not ENA).
void chooseNics(const FileTree& tree, const GenerateOptions& options, std::vector<PciDevice>& nics,
                std::vector<std::string>& remarks) {
  if (!options.nic_device.empty()) {
    std::erase_if(nics, [&](const PciDevice& nic) { return !matchesId(nic, options.nic_device); });
  }
  if (!options.nic_class.empty()) {
    std::erase_if(nics,
                  [&](const PciDevice& nic) { return !nic.device_class.starts_with(options.nic_class); });
  }
  if (!options.nic_class.empty() || !options.nic_device.empty()) return;
  prefer(nics,
         "where there is InfiniBand other networks are for storage and control; --nic-class=0x0200 takes "
         "Ethernet",
         remarks, [](const PciDevice& nic) { return nic.device_class.starts_with(kInfinibandClass); });
  prefer(nics, "they have no RDMA device; --nic-device takes them", remarks,
         [&](const PciDevice& nic) { return tree.exists(nic.path + "/infiniband"); });
}

// A switch is two bridges above the device: its upstream and its downstream port.
Outcome<bool> checkFlat(const PciDevice& device, const GenerateOptions& options) {
  const std::vector<std::string> above = busIdsAbove(device.path);
  constexpr std::size_t kSwitchPorts = 2;
  if (above.size() < kSwitchPorts || options.force) return true;
  return Error{
      device.busid + " is below the PCIe switch " + above[1] +
      ": the tree is not hidden here, NCCL reads it from /sys and needs no file. --force makes one of all "
      "the same, as if nothing were known of the switches"};
}

int nodeOf(const PciDevice& device, const std::vector<int>& nodes) {
  if (device.numa >= 0) return device.numa;
  if (nodes.empty()) return 0;
  return nodes.size() == 1 ? nodes.front() : -1;
}

void remarkOnMachine(const FlatMachine& machine, std::vector<std::string>& remarks) {
  if (machine.nics.empty()) remarks.push_back("no NIC: the file says no more than NCCL finds by itself");
  const bool root_ports = std::any_of(machine.gpus.begin(), machine.gpus.end(), [](const FlatDevice& gpu) {
    return !busIdsAbove(gpu.pci.path).empty();
  });
  if (root_ports) {
    remarks.push_back(
        "the GPUs are on root ports of their own: on bare metal that is the truth and a file would be wrong; "
        "on a VM "
        "it is the hypervisor's");
  }
}

}  // namespace

float linkSpeed(const PciLink& link) {
  const float speed = std::strtof(link.speed.c_str(), nullptr);
  constexpr float kFastest = 1024;
  return speed > 0 && speed < kFastest ? speed : 0;
}

Outcome<FlatMachine> readFlatMachine(const FileTree& tree, const GenerateOptions& options,
                                     std::vector<std::string>& remarks) {
  std::vector<PciDevice> gpus;
  std::vector<PciDevice> nics;
  for (PciDevice& device : pciDevices(tree)) {
    if (isExcluded(device, options)) continue;
    const std::string_view kind = options.nic_class.empty() ? kNetworkClass : options.nic_class;
    if (device.isGpu()) gpus.push_back(std::move(device));
    else if (device.device_class.starts_with(kind)) nics.push_back(std::move(device));
  }
  if (gpus.empty()) {
    return Error{"no GPU in " + tree.name() +
                 ": /sys/bus/pci/devices lists no display device by NVIDIA or AMD"};
  }
  chooseNics(tree, options, nics, remarks);
  const std::vector<int> nodes = numaNodes(tree);
  FlatMachine machine;
  for (auto [from, to] : {std::pair{&gpus, &machine.gpus}, std::pair{&nics, &machine.nics}}) {
    for (PciDevice& device : *from) {
      if (const Outcome<bool> flat = checkFlat(device, options); !flat.ok()) return Error{flat.error()};
      const int node = nodeOf(device, nodes);
      const PciLink link = readLink(tree, device);
      to->push_back({std::move(device), link, node});
    }
  }
  remarkOnMachine(machine, remarks);
  return machine;
}

}  // namespace railwise::topo
