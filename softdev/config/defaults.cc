#include "softdev/config/defaults.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/text/words.h"
#include "softdev/config/parser.h"
#include "softdev/config/values.h"

namespace railwise::softdev {
namespace {

constexpr uint32_t kDefaultCores = 8;
constexpr uint32_t kMaxProcessors = 8192;  // limit of Linux

// 24 well-mixed bits.
uint32_t hash24(std::string_view name) {
  const uint64_t hash = stableHash(name);
  return static_cast<uint32_t>((hash ^ hash >> 24 ^ hash >> 48) & 0xffffff);
}

// Equal host, name and link layer give an equal GUID in every process, because they name one device. (soft0
// of one configuration may be InfiniBand and of another RoCE; these are two devices, even on one fabric.) The
// GUID consists of 02 52 57, three bytes that depend on the host and on the name without its number, and the
// number.
uint64_t guidOfName(const std::string& host, std::string_view name, const PortConfig& port) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  uint32_t number = 0;
  if (!parseNumber(name.substr(digits), 0, 0xffff, &number))
    number = static_cast<uint32_t>(stableHash(name) & 0xffff);
  const char* ethernet = port.iwarp ? "/iwarp" : "";
  const char* link = port.link_layer == IBV_LINK_LAYER_INFINIBAND ? "/infiniband" : ethernet;
  const uint64_t family = hash24(host + "/" + std::string(name.substr(0, digits)) + link);
  return 0x0252570000000000ULL | family << 16 | number;
}

Gid linkLocal(uint64_t interface_id, GidType type) {
  Gid gid{};
  gid.raw[0] = 0xfe;
  gid.raw[1] = 0x80;
  for (unsigned i = 0; i < 8; ++i) gid.raw[8 + i] = static_cast<uint8_t>(interface_id >> (56 - 8 * i));
  gid.type = static_cast<uint32_t>(type);
  return gid;
}

// ::ffff:10.a.b.c
Gid ipv4Mapped(uint32_t address, GidType type) {
  Gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 10;
  for (unsigned i = 0; i < 3; ++i) gid.raw[13 + i] = static_cast<uint8_t>(address >> (16 - 8 * i));
  gid.type = static_cast<uint32_t>(type);
  return gid;
}

// The MAC address only, as iWARP devices show it (for the bytes of /sys see cli/device/tree_parts).
Gid macOf(uint64_t guid) {
  Gid gid{};
  unsigned at = 0;
  for (const unsigned shift : {56U, 48U, 40U, 16U, 8U, 0U})
    gid.raw[at++] = static_cast<uint8_t>(guid >> shift);
  gid.type = static_cast<uint32_t>(GidType::kIb);
  return gid;
}

// Converts the NVLinks of the text to the lists that NVML would return. The text may give a link between two
// GPUs at one GPU or at both. Links to kAnyNvswitch are distributed evenly.
class NvlinkCompleter {
 public:
  NvlinkCompleter(HostConfig& host, const std::string& file) : host_(host), file_(file) {
    for (const GpuConfig& gpu : host.gpus) indices_[gpu.busid()] = links_.size(), links_.emplace_back();
    for (const PciConfig& nvswitch : host.nvswitches) nvswitches_.push_back(nvswitch.busid());
  }

  Status run() {
    for (const GpuConfig& gpu : host_.gpus) RAILWISE_TRY(takeTold(gpu));
    for (const GpuConfig& gpu : host_.gpus) RAILWISE_TRY(answerTold(gpu));
    for (GpuConfig& gpu : host_.gpus) {
      gpu.nvlinks = std::move(links_[indices_[gpu.busid()]]);
      std::sort(gpu.nvlinks.begin(), gpu.nvlinks.end(),
                [](const auto& a, const auto& b) { return a.target < b.target; });
      if (gpu.nvlinkCount() > kMaxNvlinks)
        return refuse({file_, gpu.nvlinks.back().line}, "nvlink", std::to_string(gpu.nvlinkCount()),
                      "at most 18 NVLinks of GPU " + gpu.busid() + " of host " + host_.name);
    }
    return Status::success();
  }

 private:
  Status takeTold(const GpuConfig& gpu) {
    constexpr uint32_t kAmd = 0x1002;
    for (const NvlinkConfig& told : gpu.nvlinks) {
      if (gpu.vendor_id == kAmd) return refuseLink(told, "an NVIDIA GPU, but " + gpu.busid() + " is AMD's");
      if (told.target != kAnyNvswitch) {
        const bool is_switch = std::count(nvswitches_.begin(), nvswitches_.end(), told.target) > 0;
        if (!is_switch && (indices_.count(told.target) == 0 || told.target == gpu.busid()))
          return refuseLink(told,
                            "\"switch\" or the address of another GPU or an NVSwitch of host " + host_.name);
        RAILWISE_TRY(add(gpu, told));
        continue;
      }
      const std::vector<std::string> hidden = {kHiddenNvswitch};
      const std::vector<std::string>& switches = nvswitches_.empty() ? hidden : nvswitches_;
      const auto number = static_cast<uint32_t>(switches.size());
      for (uint32_t i = 0; i < number; ++i) {
        const uint32_t count = told.count / number + (i < told.count % number ? 1 : 0);
        if (count > 0) RAILWISE_TRY(add(gpu, {switches[i], count, told.line}));
      }
    }
    return Status::success();
  }

  // Adds the opposite direction of the links that the text gives.
  Status answerTold(const GpuConfig& gpu) {
    for (const NvlinkConfig& told : gpu.nvlinks) {
      const auto other = indices_.find(told.target);
      if (other == indices_.end()) continue;
      const NvlinkConfig* answer = find(links_[other->second], gpu.busid());
      if (answer == nullptr) {
        links_[other->second].push_back({gpu.busid(), told.count, told.line});
      } else if (answer->count != told.count) {
        return refuseLink(told, std::to_string(answer->count) + " links, as " + told.target + " says of " +
                                    gpu.busid() + " (host " + host_.name + ")");
      }
    }
    return Status::success();
  }

  Status add(const GpuConfig& gpu, NvlinkConfig link) {
    std::vector<NvlinkConfig>& links = links_[indices_[gpu.busid()]];
    if (find(links, link.target) != nullptr)
      return refuseLink(link, "every other end once for each GPU (host " + host_.name + ")");
    links.push_back(std::move(link));
    return Status::success();
  }

  static const NvlinkConfig* find(const std::vector<NvlinkConfig>& links, const std::string& target) {
    const auto found =
        std::find_if(links.begin(), links.end(), [&](const auto& link) { return link.target == target; });
    return found == links.end() ? nullptr : &*found;
  }

  Status refuseLink(const NvlinkConfig& told, const std::string& accepted) const {
    return refuse({file_, told.line}, "nvlink", told.target + ":" + std::to_string(told.count), accepted);
  }

  HostConfig& host_;
  const std::string& file_;
  std::map<std::string, size_t> indices_;         // index of a GPU, by bus id
  std::vector<std::string> nvswitches_;           // bus ids of the NVSwitches
  std::vector<std::vector<NvlinkConfig>> links_;  // completed lists, by the index of the GPU
};

class Completer {
 public:
  Completer(MachineConfig& machine, const std::string& file) : machine_(machine), source_{file, 0} {}

  Status run() {
    collectGiven();
    for (size_t index = 0; index < machine_.hosts.size(); ++index) {
      HostConfig& host = machine_.hosts[index];
      // Each described host gets its own network, whose number is easy to read. A computer gets a network of
      // its own among many.
      const uint32_t network = host.described ? static_cast<uint32_t>(66 + index) << 16 : hash24(host.name);
      for (DeviceConfig& device : host.devices) {
        device.host = host.name;
        completeGuids(device);
        for (PortConfig& port : device.ports) {
          completeGids(port, network);
          if (port.iwarp) moveAddresses(port);
        }
        if (device.iwarp()) device.atomics = false;
      }
      nameInterfaces(host);
      RAILWISE_TRY(shareLinks(host));
      if (host.described) {
        RAILWISE_TRY(checkFunctions(host));
        RAILWISE_TRY(NvlinkCompleter(host, source_.file).run());
        RAILWISE_TRY(completeNodes(host));
      }
    }
    return Status::success();
  }

 private:
  // Collects the GUIDs and addresses that the text gives, so that no other device gets them.
  void collectGiven() {
    for (const HostConfig& host : machine_.hosts) {
      for (const DeviceConfig& device : host.devices) {
        if (device.guid != 0) guids_.insert(device.guid);
        for (const PortConfig& port : device.ports) {
          for (const Gid& gid : port.gids) addresses_.insert(addressOf(gid));
        }
      }
    }
  }

  static std::string addressOf(const Gid& gid) {
    return {reinterpret_cast<const char*>(gid.raw), sizeof gid.raw};
  }

  void completeGuids(DeviceConfig& device) {
    if (device.guid == 0) {
      device.guid = guidOfName(device.host, device.name, device.ports[0]);
      while (!guids_.insert(device.guid).second) ++device.guid;
    }
    device.ports[0].guid = device.guid;
    for (size_t i = 1; i < device.ports.size(); ++i) {
      // The top byte keeps the bits that mark a locally administered unicast address.
      uint64_t& guid = device.ports[i].guid;
      guid = device.guid ^ uint64_t { i } << 58;
      while (guid == 0 || !guids_.insert(guid).second) ++guid;
    }
  }

  void completeGids(PortConfig& port, uint32_t network) {
    const bool infiniband = port.link_layer == IBV_LINK_LAYER_INFINIBAND;
    for (Gid& gid : port.gids) {
      if (gid.type == kGidTypeByLink)
        gid.type = static_cast<uint32_t>(infiniband ? GidType::kIb : GidType::kRoceV2);
    }
    if (!port.gids.empty()) return;
    if (infiniband) {
      port.gids = {linkLocal(port.guid, GidType::kIb)};
      return;
    }
    constexpr uint32_t kMask = 0xffffff;
    // The GUIDs of a device's ports differ only in the top byte.
    const auto port_bits = static_cast<uint32_t>(port.guid >> 58 & 3) << 14;
    auto host = static_cast<uint32_t>((network + ((port.guid & 0xffff) ^ port_bits) + 1) & kMask);
    while ((host & 0xff) == 0 || !addresses_.insert(addressOf(ipv4Mapped(host, GidType::kRoceV2))).second)
      host = (host + 1) & kMask;
    port.gids = {linkLocal(port.guid, GidType::kRoceV1), linkLocal(port.guid, GidType::kRoceV2),
                 ipv4Mapped(host, GidType::kRoceV1), ipv4Mapped(host, GidType::kRoceV2)};
  }

  // These addresses belong to the interface. The GID table of iWARP holds only the MAC address.
  static void moveAddresses(PortConfig& port) {
    for (const Gid& gid : port.gids) {
      // Takes each address once.
      if (gid.type != static_cast<uint32_t>(GidType::kRoceV1)) port.addresses.push_back(gid);
    }
    port.gids = {macOf(port.guid)};
  }

  static void nameInterfaces(HostConfig& host) {
    constexpr size_t kLongest = 15;  // IFNAMSIZ
    std::set<std::string> taken;
    for (const DeviceConfig& device : host.devices) {
      for (const PortConfig& port : device.ports) taken.insert(port.netdev);
    }
    for (DeviceConfig& device : host.devices) {
      for (size_t i = 0; i < device.ports.size(); ++i) {
        PortConfig& port = device.ports[i];
        if (port.link_layer == IBV_LINK_LAYER_INFINIBAND || !port.netdev.empty()) continue;
        const std::string name = "en_" + device.name + (i > 0 ? "p" + std::to_string(i + 1) : "");
        port.netdev = name.substr(0, kLongest);
        for (int number = 0; !taken.insert(port.netdev).second; ++number) {
          const std::string digits = std::to_string(number);
          port.netdev = name.substr(0, kLongest - digits.size() - 1) + "_" + digits;
        }
      }
    }
  }

  // The functions of one slot are one card with one link. Devices with an equal pcie_link share a link too.
  Status shareLinks(HostConfig& host) const {
    std::map<std::string, uint32_t> links;
    std::map<std::string, uint64_t> cards;
    for (DeviceConfig& device : host.devices) {
      const std::string busid = device.busid();
      const std::string slot = busid.empty() ? device.name : busid.substr(0, busid.find('.'));
      device.system_guid = cards.emplace(slot, device.guid).first->second;
      if (device.pcie_link.empty() && !busid.empty()) device.pcie_link = busid.substr(0, busid.find('.'));
      if (device.pcie_link.empty()) continue;
      uint32_t& mbps = links[device.pcie_link];
      if (mbps != 0 && device.pcie_mbps != 0 && mbps != device.pcie_mbps)
        return refuse(source_, "pcie", device.name,
                      "the same bandwidth for all devices on the PCIe link " + device.pcie_link +
                          " of host " + host.name);
      mbps = std::max(mbps, device.pcie_mbps);
    }
    for (DeviceConfig& device : host.devices) {
      if (!device.pcie_link.empty()) device.pcie_mbps = links[device.pcie_link];
    }
    return Status::success();
  }

  // Checks that no two functions have one address, that nothing lies below a GPU or a NIC, and that every bus
  // is in one place.
  Status checkFunctions(const HostConfig& host) const {
    std::map<std::string, std::string> owners;  // bus id -> the kind of function there
    for (const PciConfig& gpu : host.gpus) {
      if (!owners.emplace(gpu.busid(), "a GPU").second)
        return refuse(source_, "pci", gpu.pci,
                      "an address that no other function of host " + host.name + " has");
    }
    for (const PciConfig& nvswitch : host.nvswitches) {
      if (!owners.emplace(nvswitch.busid(), "an NVSwitch").second)
        return refuse(source_, "pci", nvswitch.pci,
                      "an address that no other function of host " + host.name + " has");
    }
    for (const DeviceConfig& device : host.devices) {
      const std::string busid = device.busid();
      if (busid.empty()) continue;
      if (!owners.emplace(busid, device.name).second)
        return refuse(source_, "pci", device.pci,
                      "an address that no other function of host " + host.name + " has");
    }
    std::map<std::string, std::string> places;  // bus or function -> its folder
    for (const PciConfig& gpu : host.gpus) RAILWISE_TRY(checkAbove(host, gpu, owners, places));
    for (const PciConfig& each : host.nvswitches) RAILWISE_TRY(checkAbove(host, each, owners, places));
    for (const DeviceConfig& device : host.devices) RAILWISE_TRY(checkAbove(host, device, owners, places));
    for (const PciConfig& bridge : host.bridges) RAILWISE_TRY(checkAbove(host, bridge, owners, places));
    return Status::success();
  }

  Status checkAbove(const HostConfig& host, const PciConfig& function,
                    const std::map<std::string, std::string>& owners,
                    std::map<std::string, std::string>& places) const {
    std::set<std::string> seen;
    for (std::string path = function.pci; !path.empty(); path.resize(path.rfind('/'))) {
      const std::string step = path.substr(path.rfind('/') + 1);
      if (!isBusId(step)) continue;
      if (!seen.insert(step).second)
        return refuse(source_, "pci", function.pci, "every address once on the way (host " + host.name + ")");
      const std::string folder = path.substr(0, path.size() - step.size() - 1);
      for (const std::string& name : {step, step.substr(0, 7)}) {  // the function and its bus
        if (places.emplace(name, folder).first->second != folder)
          return refuse(
              source_, "pci", function.pci,
              "one place for " + name + " of host " + host.name + ", which is in " + places[name] + " too");
      }
      const auto owner = owners.find(step);
      if (path.size() != function.pci.size() && owner != owners.end())
        return refuse(
            source_, "pci", function.pci,
            "bridges above a function, but " + step + " of host " + host.name + " is " + owner->second);
    }
    return Status::success();
  }

  Status completeNodes(HostConfig& host) const {
    int32_t highest = -1;
    for (const PciConfig& gpu : host.gpus) highest = std::max(highest, gpu.numa);
    for (const PciConfig& nvswitch : host.nvswitches) highest = std::max(highest, nvswitch.numa);
    for (const PciConfig& bridge : host.bridges) highest = std::max(highest, bridge.numa);
    for (const DeviceConfig& device : host.devices) highest = std::max(highest, device.numa);
    host.numa_nodes = std::max({host.numa_nodes, static_cast<uint32_t>(highest + 1), 1U});
    if (host.cores == 0) host.cores = kDefaultCores;
    if (host.numa_nodes * host.cores > kMaxProcessors)
      return refuse(source_, "cores", std::to_string(host.cores),
                    "at most 8192 processors on all NUMA nodes of host " + host.name);
    return Status::success();
  }

  MachineConfig& machine_;
  Source source_;
  std::set<uint64_t> guids_;
  std::set<std::string> addresses_;
};

}  // namespace

Status completeMachine(MachineConfig& machine, const std::string& host_name, const std::string& file) {
  for (HostConfig& host : machine.hosts) {
    if (!host.described) host.name = host_name;
  }
  return Completer(machine, file).run();
}

}  // namespace railwise::softdev
