#include "topo/sources/generate/flat_machine.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/pci.h"
#include "base/text/words.h"

namespace railwise::topo {
namespace {

constexpr std::string_view kNetworkClass = "0x02";
constexpr std::string_view kInfinibandClass = "0x0207";

// A virtual function tells nothing of its link. Unlike NCCL, this ignores the port above: a hypervisor's root
// port says nothing about the link of a device that is passed through.
PciLink readLink(const sysfs::FileTree& tree, const sysfs::PciDevice& device) {
  const PciLink best = sysfs::bestLink(tree, device.path);
  return best.known() ? best : sysfs::currentLink(tree, device.path);
}

// Normalises a hexadecimal number to the form in /sys: "101E" becomes "0x101e", with at least `digits`
// digits. "": the text is not such a number.
std::string hexText(std::string_view text, std::size_t least, std::size_t most, std::size_t digits) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  if (text.size() < least || text.size() > most) return {};
  std::string number = "0x" + std::string(digits - std::min(digits, text.size()), '0');
  for (const char c : text) {
    const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    if (!(lower >= '0' && lower <= '9') && !(lower >= 'a' && lower <= 'f')) return {};
    number += lower;
  }
  return number;
}

// A device as an option names it.
struct Selection {
  std::optional<int64_t> address;
  std::string vendor;  // "": any
  std::string device;

  bool matches(const sysfs::PciDevice& pci) const {
    if (address) return *address == busIdToNumber(pci.busid);
    return device == pci.device && (vendor.empty() || vendor == pci.vendor);
  }
};

Outcome<Selection> readSelection(const std::string& option, const std::string& text, bool addresses) {
  Selection selection;
  if (addresses && isBusId(text)) {
    selection.address = busIdToNumber(text);
    return selection;
  }
  constexpr std::size_t kIdDigits = 4;
  const std::size_t colon = text.find(':');
  const bool both = colon != std::string::npos;
  if (both) selection.vendor = hexText(text.substr(0, colon), 1, kIdDigits, kIdDigits);
  selection.device = hexText(both ? text.substr(colon + 1) : text, 1, kIdDigits, kIdDigits);
  if (!selection.device.empty() && (!both || !selection.vendor.empty())) return selection;
  return Error{"--" + option + "=" + text + ": write " +
                   (addresses ? "a whole PCI address (0001:00:00.0), " : "") +
                   "a device id (0x101e) or both ids (0x15b3:0x101e)",
               Code::kInvalidArgument};
}

Outcome<std::vector<Selection>> readExclusions(const GenerateOptions& options,
                                               const std::vector<sysfs::PciDevice>& devices) {
  std::vector<Selection> exclusions;
  for (const std::string& text : options.exclude) {
    Outcome<Selection> selection = readSelection("exclude", text, true);
    if (!selection.ok()) return selection.failure();
    if (std::none_of(devices.begin(), devices.end(),
                     [&](const sysfs::PciDevice& device) { return selection->matches(device); }))
      return Error{"--exclude=" + text + " matches no PCI device; \"lspci -Dnn\" lists them",
                   Code::kInvalidArgument};
    exclusions.push_back(std::move(*selection));
  }
  return exclusions;
}

std::string names(const std::vector<sysfs::PciDevice>& devices) {
  return joined(devices, ", ", &sysfs::PciDevice::busid);
}

// Keeps only the NICs for which `wanted` is true, if there is such a NIC. A remark says what was left out and
// why.
template <typename Wanted>
void prefer(std::vector<sysfs::PciDevice>& nics, const std::string& kept, std::vector<std::string>& remarks,
            const Wanted& wanted) {
  const auto split = std::stable_partition(nics.begin(), nics.end(), wanted);
  if (split == nics.begin() || split == nics.end()) return;
  remarks.push_back(names({split, nics.end()}) + " left out: " + kept);
  nics.erase(split, nics.end());
}

// Lists devices: "0001:00:00.0 (class 0x020000, 0x15b3:0x101a), ..." or "none".
std::string described(const std::vector<sysfs::PciDevice>& devices) {
  if (devices.empty()) return "none";
  return joined(devices, ", ", [](const sysfs::PciDevice& device) {
    return device.busid + " (class " + device.device_class + ", " + device.vendor + ":" + device.device + ")";
  });
}

// Keeps the NICs that the options name. An error: the options name no NIC.
Outcome<bool> selectNics(const GenerateOptions& options, std::vector<sysfs::PciDevice>& nics) {
  if (nics.empty() && !options.nic_class.empty())
    return Error{"--nic-class=" + options.nic_class + " matches no PCI device that is left",
                 Code::kInvalidArgument};
  if (options.nic_device.empty()) return true;
  const Outcome<Selection> selection = readSelection("nic-device", options.nic_device, false);
  if (!selection.ok()) return selection.failure();
  const std::vector<sysfs::PciDevice> seen = nics;
  std::erase_if(nics, [&](const sysfs::PciDevice& nic) { return !selection->matches(nic); });
  if (nics.empty())
    return Error{"--nic-device=" + options.nic_device + " matches no NIC; seen: " + described(seen),
                 Code::kInvalidArgument};
  return true;
}

// Prefers InfiniBand to Ethernet: if a cloud offers both, Ethernet is for storage and the control network.
// Among Ethernet devices it prefers those with RDMA, if there are any (EFA, not ENA).
void preferNics(const sysfs::FileTree& tree, std::vector<sysfs::PciDevice>& nics,
                std::vector<std::string>& remarks) {
  prefer(nics,
         "where there is InfiniBand other networks are for storage and control; --nic-class=0x0200 takes "
         "Ethernet",
         remarks, [](const sysfs::PciDevice& nic) { return nic.device_class.starts_with(kInfinibandClass); });
  prefer(nics, "they have no RDMA device; --nic-device takes them", remarks,
         [&](const sysfs::PciDevice& nic) { return tree.exists(nic.path + "/infiniband"); });
}

// CPUID's hypervisor bit, which is set in every guest. Other architectures have no such bit: false.
bool runsOnHypervisor() {
#if defined(__x86_64__) || defined(__i386__)
  constexpr unsigned kHypervisorBit = 1U << 31U;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & kHypervisorBit) != 0;
#else
  return false;
#endif
}

// A PCIe switch appears as two bridges above the device: its upstream and its downstream port. A single
// bridge is a root port, either of a bare-metal CPU or of a hypervisor that shows its guest one per device.
Outcome<bool> checkFlat(const sysfs::FileTree& tree, const sysfs::PciDevice& device,
                        const GenerateOptions& options) {
  const std::vector<std::string> above = sysfs::busIdsAbove(device.path);
  constexpr std::size_t kSwitchPorts = 2;
  if (above.empty() || options.force) return true;
  if (above.size() >= kSwitchPorts) {
    return Error{
        device.busid + " is below the PCIe switch " + above[1] +
        ": the tree is not hidden here, NCCL reads it from /sys and needs no file. --force makes one of all "
        "the same, as if nothing were known of the switches"};
  }
  if (!options.only_when_certain || (tree.live() && runsOnHypervisor())) return true;
  return Error{
      device.busid + " is below the PCIe port " + above[0] +
      ": this looks like bare metal: PCIe root ports are visible, and NCCL reads the tree from /sys. "
      "If it is a VM, `railwise topo generate` makes the file"};
}

int nodeOf(const sysfs::PciDevice& device, const std::vector<int>& nodes) {
  if (device.numa >= 0) return device.numa;
  if (nodes.empty()) return 0;
  return nodes.size() == 1 ? nodes.front() : -1;
}

void remarkOnMachine(const FlatMachine& machine, std::vector<std::string>& remarks) {
  const bool root_ports = std::any_of(machine.gpus.begin(), machine.gpus.end(), [](const FlatDevice& gpu) {
    return !sysfs::busIdsAbove(gpu.pci.path).empty();
  });
  if (root_ports) {
    remarks.push_back(
        "the GPUs are on PCIe root ports of their own. On bare metal that is the truth: no file is needed "
        "there, and this one would be wrong. On a VM the ports are the hypervisor's, and the file is right");
  }
}

// NVIDIA's accelerators are 3D controllers, and almost no other devices are.
bool isGpuWithoutVendor(const sysfs::PciDevice& device) {
  return device.vendor.empty() && device.device_class.starts_with("0x0302");
}

Outcome<bool> allByAmd(const std::vector<sysfs::PciDevice>& gpus) {
  const auto by_amd = [](const sysfs::PciDevice& gpu) { return gpu.isAmdGpu(); };
  if (std::none_of(gpus.begin(), gpus.end(), by_amd)) return false;
  if (std::all_of(gpus.begin(), gpus.end(), by_amd)) return true;
  return Error{"GPUs by NVIDIA and by AMD: no file serves both; --exclude those that are not meant: " +
               described(gpus)};
}

struct Candidates {
  std::vector<sysfs::PciDevice> gpus;
  std::vector<sysfs::PciDevice> nics;
  std::vector<sysfs::PciDevice> excluded;  // NICs that --exclude names
};

// Without a NIC there is nothing to pair, which is an error unless the options allow it.
Outcome<bool> checkNics(const sysfs::FileTree& tree, const GenerateOptions& options, const Candidates& found,
                        std::vector<std::string>& remarks) {
  if (!found.nics.empty()) return true;
  const std::string seen = "no NIC in " + tree.name() +
                           ": network devices seen: " + described(found.excluded) +
                           (found.excluded.empty() ? "" : ", left out by --exclude") +
                           "; the file says no more than NCCL finds by itself";
  if (!options.force) return Error{seen + ". --force writes it all the same"};
  remarks.push_back(seen);
  return true;
}

// Finds the devices that are GPUs or NICs and that the options select.
Outcome<Candidates> findCandidates(const sysfs::FileTree& tree, const GenerateOptions& options,
                                   std::vector<std::string>& remarks) {
  constexpr std::size_t kClassDigits = 6;
  const std::string kind =
      options.nic_class.empty() ? std::string(kNetworkClass) : hexText(options.nic_class, 2, kClassDigits, 0);
  if (kind.empty())
    return Error{"--nic-class=" + options.nic_class + ": write it as 0x0207 or 0x020000",
                 Code::kInvalidArgument};
  std::vector<sysfs::PciDevice> devices = sysfs::pciDevices(tree);
  const Outcome<std::vector<Selection>> exclusions = readExclusions(options, devices);
  if (!exclusions.ok()) return exclusions.failure();
  Candidates found;
  std::vector<sysfs::PciDevice> nameless;
  for (sysfs::PciDevice& device : devices) {
    const bool nic = device.device_class.starts_with(kind);
    if (std::any_of(exclusions->begin(), exclusions->end(),
                    [&](const Selection& selection) { return selection.matches(device); })) {
      if (nic) found.excluded.push_back(std::move(device));
      continue;
    }
    if (isGpuWithoutVendor(device)) nameless.push_back(device);
    if (device.isGpu() || isGpuWithoutVendor(device)) found.gpus.push_back(std::move(device));
    else if (nic) found.nics.push_back(std::move(device));
  }
  if (found.gpus.empty()) {
    return Error{"no GPU in " + tree.name() +
                 ": /sys/bus/pci/devices lists no display device by NVIDIA or AMD"};
  }
  if (!nameless.empty())
    remarks.push_back(names(nameless) + ": the vendor cannot be read; by the class taken for NVIDIA's");
  if (const Outcome<bool> chosen = selectNics(options, found.nics); !chosen.ok()) return chosen.failure();
  if (options.nic_class.empty() && options.nic_device.empty()) preferNics(tree, found.nics, remarks);
  return found;
}

}  // namespace

const PciLink* fastestLink(const std::vector<const FlatDevice*>& devices) {
  const PciLink* fastest = nullptr;
  for (const FlatDevice* device : devices) {
    if (!device->link.known()) continue;
    if (fastest == nullptr || transfersOf(device->link) > transfersOf(*fastest)) fastest = &device->link;
  }
  return fastest;
}

const PciLink* fastestLink(const std::vector<FlatDevice>& devices) {
  std::vector<const FlatDevice*> pointers;
  for (const FlatDevice& device : devices) pointers.push_back(&device);
  return fastestLink(pointers);
}

Outcome<FlatMachine> readFlatMachine(const sysfs::FileTree& tree, const GenerateOptions& options,
                                     std::vector<std::string>& remarks) {
  Outcome<Candidates> found = findCandidates(tree, options, remarks);
  if (!found.ok()) return found.failure();
  FlatMachine machine;
  const Outcome<bool> amd = allByAmd(found->gpus);
  if (!amd.ok()) return Error{amd.error()};
  machine.amd = *amd;
  const std::vector<int> nodes = sysfs::numaNodes(tree);
  // If there is a PCIe tree, the error says so, whatever else is missing.
  for (const auto* devices : {&found->gpus, &found->nics}) {
    for (const sysfs::PciDevice& device : *devices) {
      if (const Outcome<bool> flat = checkFlat(tree, device, options); !flat.ok()) return Error{flat.error()};
    }
  }
  if (const Outcome<bool> enough = checkNics(tree, options, *found, remarks); !enough.ok())
    return Error{enough.error()};
  for (auto [from, to] : {std::pair{&found->gpus, &machine.gpus}, std::pair{&found->nics, &machine.nics}}) {
    for (sysfs::PciDevice& device : *from) {
      const int node = nodeOf(device, nodes);
      const PciLink link = readLink(tree, device);
      to->push_back({std::move(device), link, node, to == &machine.gpus});
    }
  }
  remarkOnMachine(machine, remarks);
  return machine;
}

bool treeIsHidden(const sysfs::FileTree& tree, std::span<const sysfs::PciDevice> gpus,
                  std::span<const std::string> nics) {
  GenerateOptions options;
  options.only_when_certain = true;
  const auto flat = [&](const sysfs::PciDevice& device) { return checkFlat(tree, device, options).ok(); };
  return std::all_of(gpus.begin(), gpus.end(), flat) &&
         std::all_of(nics.begin(), nics.end(), [&](const std::string& path) {
           sysfs::PciDevice device;
           device.busid = sysfs::baseName(path);
           device.path = path;
           return flat(device);
         });
}

}  // namespace railwise::topo
