#include "topo/sources/record.h"

#include <algorithm>
#include <map>

#include "base/pci.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "gpu/json.h"
#include "sysfs/pci_devices.h"
#include "sysfs/rdma_devices.h"
#include "topo/sources/cpu_identity.h"
#include "topo/sources/net_devices.h"

namespace railwise::topo {
namespace {

constexpr const char* kPciFiles[] = {"class",
                                     "vendor",
                                     "device",
                                     "subsystem_vendor",
                                     "subsystem_device",
                                     "max_link_speed",
                                     "max_link_width",
                                     "current_link_speed",
                                     "current_link_width",
                                     "numa_node"};
constexpr const char* kPortFiles[] = {"state", "rate", "link_layer", "phys_state"};
constexpr const char* kRdmaFiles[] = {"node_type", "hca_type", "board_id", "fw_ver"};
// For railwise fingerprint.
constexpr const char* kVersionFiles[] = {"/proc/sys/kernel/osrelease", "/sys/module/amdgpu/version",
                                         "/sys/module/mlx5_core/version", "/sys/module/nvidia/version"};
constexpr const char* kGuidFiles[] = {"sys_image_guid", "node_guid"};
constexpr const char* kNodeFiles[] = {"cpumap", "cpulist"};
constexpr char kPciSubsystem[] = "/sys/bus/pci";
constexpr char kSwitchLinks[] = "/sys/kernel/pci_switch_link/virtual_switch_links";

// Turns "/sys/devices/LNXSYSTM:00/.../VMBUS:00/<instance>/pci0001:00/0001:00:00.0" into
// "/sys/devices/pci0001:00/0001:00:00.0", because no reader looks above the root bus.
std::string recordedPath(const std::string& path) {
  const std::vector<std::string> components = sysfs::splitPath(path);
  const auto root = std::find_if(components.begin(), components.end(), [](const std::string& component) {
    return component.starts_with("pci") && component.find(':') != std::string::npos;
  });
  if (root == components.end()) return path;
  std::string kept = "/sys/devices";
  for (auto component = root; component != components.end(); ++component) kept.append("/").append(*component);
  return kept;
}

// Makes the target relative, so that the archive can be unpacked anywhere.
std::string relativeTarget(const std::string& link, const std::string& target) {
  const std::vector<std::string> from = sysfs::splitPath(link);
  const std::vector<std::string> to = sysfs::splitPath(target);
  std::size_t common = 0;
  while (common + 1 < from.size() && common < to.size() && from[common] == to[common]) ++common;
  std::string relative;
  for (std::size_t i = common + 1; i < from.size(); ++i) relative += "../";
  for (std::size_t i = common; i < to.size(); ++i)
    relative.append(to[i]).append(i + 1 < to.size() ? "/" : "");
  return relative.empty() ? "." : relative;
}

// True if the interface is named after its MAC address ("enx0c42a1547e1a"). Such interfaces get a number
// instead.
bool namesAddress(const std::string& interface) {
  constexpr std::size_t kMacDigits = 12;
  const auto hex = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  return interface.size() >= kMacDigits && std::all_of(interface.end() - kMacDigits, interface.end(), hex);
}

class Recorder {
 public:
  Recorder(const sysfs::FileTree& live, const RecordOptions& options) : live_(live), options_(options) {}

  Outcome<sysfs::MemoryTree> record() {
    const std::vector<sysfs::PciDevice> devices = sysfs::pciDevices(live_);
    if (devices.empty())
      return Error{live_.name() + ": no device in /sys/bus/pci/devices, nothing to record"};
    tree_.folder(kPciSubsystem);
    for (const sysfs::PciDevice& device : devices) addPci(device);
    for (const std::string& bus : live_.list("/sys/class/pci_bus")) addClassLink("/sys/class/pci_bus/" + bus);
    if (options_.anonymise) numberGuids();
    for (const std::string& name : live_.list("/sys/class/infiniband")) addInfiniband(name);
    for (const int node : sysfs::numaNodes(live_)) addNode(std::to_string(node));
    for (const std::string& name : live_.list(kSwitchLinks))
      addSwitchLinks(std::string(kSwitchLinks) + "/" + name);
    const CpuAnswer cpu = cpuOf(live_);
    if (!cpu.guessed) tree_.file(kCpuIdentityPath, cpuIdentityText(cpu.cpu) + "\n");
    if (options_.gpu_answers != nullptr) tree_.file(kGpuAnswersPath, gpuAnswers(*options_.gpu_answers));
    for (const char* file : kVersionFiles)
      if (const auto version = live_.read(file)) tree_.file(file, *version);
    return std::move(tree_);
  }

 private:
  template <std::size_t count>
  void addFiles(const std::string& from, const std::string& to, const char* const (&names)[count]) {
    for (const char* name : names) {
      if (const auto content = live_.read(from + "/" + name)) tree_.file(to + "/" + name, *content);
    }
  }

  void addLink(const std::string& link, const std::string& target) {
    tree_.link(link, relativeTarget(link, target));
  }

  // Records a link of /sys/class and the folder that it leads to. Returns that folder in the recorded tree,
  // or "".
  std::string addClassLink(const std::string& link) {
    const Outcome<std::string> real = live_.realPath(link);
    if (!real.ok()) return {};
    std::string folder = recordedPath(*real);
    tree_.folder(folder);
    if (folder != link) addLink(link, folder);
    return folder;
  }

  void addPci(const sysfs::PciDevice& device) {
    const std::string folder = recordedPath(device.path);
    addFiles(device.path, folder, kPciFiles);
    if (sysfs::isPciDevice(live_, device.path)) addLink(folder + "/subsystem", kPciSubsystem);
    addLink(std::string(kPciSubsystem) + "/devices/" + device.busid, folder);
    if (const Outcome<std::string> nic = live_.realPath(device.path + "/physfn"); nic.ok())
      addLink(folder + "/physfn", recordedPath(*nic));
    for (const std::string& name : live_.list(device.path + "/net")) {
      addInterface(folder, name);
      if (const auto speed = live_.read(device.path + "/net/" + name + "/speed"))
        tree_.file(folder + "/net/" + shownName(name) + "/speed", *speed);
    }
  }

  // Records an interface below the PCI function with that recorded folder.
  void addInterface(const std::string& folder, const std::string& name) {
    const std::string interface = folder + "/net/" + shownName(name);
    tree_.folder(interface);
    addLink(interface + "/device", folder);
    addLink("/sys/class/net/" + shownName(name), interface);
  }

  const std::string& shownName(const std::string& interface) {
    const auto known = shown_names_.find(interface);
    if (known != shown_names_.end()) return known->second;
    std::string shown = namesAddress(interface) ? "net" + std::to_string(renamed_++) : interface;
    return shown_names_.emplace(interface, std::move(shown)).first->second;
  }

  // Records a Soft-RoCE or soft-iWARP device: its network interface, and the card of that interface. Layers
  // between them (a VLAN, virtio's driver) are left out.
  void addSoftware(const std::string& name, const std::string& to) {
    const std::string interface = sysfs::interfaceOf(live_, name);
    if (interface.empty()) return;
    tree_.file(to + "/parent", shownName(interface) + "\n");
    const std::string function = sysfs::functionOfInterface(live_, interface);
    if (!function.empty()) addInterface(recordedPath(function), interface);
  }

  void addInfiniband(const std::string& name) {
    const std::string from = "/sys/class/infiniband/" + name;
    const std::string to = addClassLink(from);
    if (to.empty()) return;
    if (const Outcome<std::string> place = live_.realPath(from + "/device"); place.ok()) {
      const std::string folder = recordedPath(*place);
      tree_.folder(folder);
      addLink(to + "/device", folder);
    } else {
      addSoftware(name, to);
    }
    addFiles(from, to, kRdmaFiles);
    for (const char* file : kGuidFiles) {
      if (const auto guid = live_.read(from + "/" + file)) tree_.file(to + "/" + file, guidText(*guid));
    }
    for (const std::string& port : live_.list(from + "/ports")) {
      addFiles(from + "/ports/" + port, to + "/ports/" + port, kPortFiles);
    }
  }

  // Without UUIDs, which are made of serial numbers.
  std::string gpuAnswers(gpu::GpuTopology answers) const {
    answers.remarks.clear();  // they may name files of the machine
    for (gpu::Device& device : answers.gpus) {
      device.uuid.clear();
      if (options_.anonymise && !device.fabric_cluster.empty()) device.fabric_cluster = "anonymised";
    }
    return gpu::jsonOf(answers);
  }

  void numberGuids() {
    for (const std::string& name : live_.list("/sys/class/infiniband")) {
      for (const char* file : kGuidFiles) {
        guids_.emplace(
            parseGuid(trimmed(live_.read("/sys/class/infiniband/" + name + "/" + file).value_or(""))), 0);
      }
    }
    guids_.erase(0);  // GUID 0 means "none" and stays 0
    uint64_t next = 0;
    for (auto& [guid, number] : guids_) number = ++next;
  }

  std::string guidText(const std::string& text) const {
    if (!options_.anonymise) return text;
    const auto known = guids_.find(parseGuid(trimmed(text)));
    const auto number = static_cast<unsigned>(known == guids_.end() ? 0 : known->second);
    return formatText("0000:0000:%04x:%04x\n", number >> 16, number & 0xffff);
  }

  void addNode(const std::string& node) {
    const std::string folder = "/sys/devices/system/node/node" + node;
    addFiles(folder, folder, kNodeFiles);
  }

  // Only the names in these folders matter, so the files are empty.
  void addSwitchLinks(const std::string& folder) {
    for (const std::string& peer : live_.list(folder)) {
      if (peer.size() == kBusIdLength) tree_.file(folder + "/" + peer, "");
    }
  }

  const sysfs::FileTree& live_;
  const RecordOptions& options_;
  sysfs::MemoryTree tree_{"recorded tree"};
  std::map<uint64_t, uint64_t> guids_;
  std::map<std::string, std::string> shown_names_;  // by the interface's real name
  int renamed_ = 0;
};

}  // namespace

Outcome<sysfs::MemoryTree> recordTree(const sysfs::FileTree& live, const RecordOptions& options) {
  return Recorder(live, options).record();
}

}  // namespace railwise::topo
