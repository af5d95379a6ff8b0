#include "cli/device/tree.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/pci.h"
#include "cli/options/message.h"
#include "gpu/json.h"
#include "topo/sources/cpu_identity.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::cli {
namespace {

constexpr char kPciBus[] = "/sys/bus/pci";

class TreeMaker {
 public:
  explicit TreeMaker(const softdev::HostConfig& host) : host_(host) {}

  sysfs::MemoryTree make() {
    for (const softdev::GpuConfig& gpu : host_.gpus) addGpu(gpu);
    for (const softdev::PciConfig& each : host_.nvswitches) addFunction(each, nvswitchFunction(each));
    for (const softdev::DeviceConfig& device : host_.devices) addDevice(device);
    addGpuAnswers();
    addBridges();
    if (host_.described) addNodes();
    addPeerMemory();
    if (!host_.cpu.empty()) tree_.file(topo::kCpuIdentityPath, host_.cpu + "\n");
    return std::move(tree_);
  }

 private:
  void file(const std::string& folder, const char* name, const std::string& text) {
    tree_.file(folder + "/" + name, text + "\n");
  }

  // Writes a relative link, so that the tree can be anywhere.
  void link(const std::string& path, const std::string& target) {
    const std::filesystem::path from = std::filesystem::path(path).parent_path();
    tree_.link(path, std::filesystem::path(target).lexically_relative(from).string());
  }

  // Adds the PCI function, its bus, and what the configuration says about the bridges above it.
  void addFunction(const softdev::PciConfig& config, const PciFunction& function) {
    const std::string folder = config.pci;
    if (config.busid().empty() || !folder.starts_with("/sys/devices/")) return;
    writeFunction(folder, function);
    std::string above = std::filesystem::path(folder).parent_path().string();
    while (isBusId(sysfs::baseName(above))) {
      PciFunction& bridge = bridges_[above];
      bridge.gen = std::max(bridge.gen, function.gen);
      bridge.lanes = std::max(bridge.lanes, function.lanes);
      if (bridge.numa < 0) bridge.numa = function.numa;
      above = std::filesystem::path(above).parent_path().string();
    }
  }

  void addGpu(const softdev::GpuConfig& gpu) {
    const PciFunction function = gpuFunction(gpu);
    addFunction(gpu, function);
    const int index = static_cast<int>(answers_.gpus.size());
    answers_.gpus.push_back(gpuAnswer(gpu, index));
    for (const softdev::NvlinkConfig& link : gpu.nvlinks)
      answers_.links.push_back(linkAnswer(link, gpu, index));
  }

  // Link ends are known when all GPUs are.
  void addGpuAnswers() {
    for (gpu::Link& link : answers_.links) {
      for (const gpu::Device& device : answers_.gpus) {
        if (device.busid != link.to_busid) continue;
        link.to = device.index;
        link.kind = gpu::LinkKind::kNvlink;
        link.latency = gpu::LatencyClass::kDirect;
      }
    }
    tree_.file(topo::kGpuAnswersPath, gpu::jsonOf(answers_));
  }

  void addBridges() {
    for (auto& [folder, bridge] : bridges_) {
      const auto told = std::ranges::find_if(
          host_.bridges, [path = &folder](const auto& config) { return config.pci == *path; });
      const std::string above = std::filesystem::path(folder).parent_path().string();
      describeBridge(bridge, !isBusId(sysfs::baseName(above)),
                     told == host_.bridges.end() ? nullptr : &*told);
      writeFunction(folder, bridge);
    }
  }

  void writeFunction(const std::string& folder, const PciFunction& function) {
    const std::string busid(sysfs::baseName(folder));
    for (const auto& [name, text] : functionFiles(function, busid)) file(folder, name.c_str(), text);
    if (function.numa >= 0 && host_.cores > 0) {
      file(folder, "local_cpulist", cpuList(static_cast<uint32_t>(function.numa), host_.cores));
      file(folder, "local_cpus", cpuMask(static_cast<uint32_t>(function.numa), host_));
    }
    link(folder + "/subsystem", kPciBus);
    link(std::string(kPciBus) + "/devices/" + busid, folder);
    const std::string bus = busid.substr(0, busid.rfind(':'));
    const std::string bus_folder = std::filesystem::path(folder).parent_path().string() + "/pci_bus/" + bus;
    tree_.folder(bus_folder);
    link("/sys/class/pci_bus/" + bus, bus_folder);
  }

  void addDevice(const softdev::DeviceConfig& device) {
    // The kernel puts devices without a place on a bus there.
    std::string place = "/sys/devices/platform/railwise/" + device.name;
    if (device.pci.starts_with("/sys/devices/")) place = device.pci;
    addFunction(device, nicFunction(device));
    tree_.folder(place);
    const std::string folder = place + "/infiniband/" + device.name;
    link("/sys/class/infiniband/" + device.name, folder);
    link(folder + "/device", place);
    link(folder + "/subsystem", "/sys/class/infiniband");
    for (const auto& [name, text] : deviceFiles(device)) file(folder, name.c_str(), text);
    for (uint32_t number = 1; number <= device.portCount(); ++number) {
      const softdev::PortConfig& port = *device.port(number);
      for (const auto& [name, text] : portFiles(port))
        file(folder + "/ports/" + std::to_string(number), name.c_str(), text);
      if (port.link_layer != IBV_LINK_LAYER_INFINIBAND) addInterface(place, port, number);
    }
  }

  void addInterface(const std::string& place, const softdev::PortConfig& port, uint32_t number) {
    const std::string folder = place + "/net/" + port.netdev;
    link("/sys/class/net/" + port.netdev, folder);
    link(folder + "/device", place);
    link(folder + "/subsystem", "/sys/class/net");
    for (const auto& [name, text] : interfaceFiles(port, number)) file(folder, name.c_str(), text);
  }

  // Adds the kernel module by which NCCL's net_ib recognises that NICs can access GPU memory by its address.
  void addPeerMemory() {
    const bool any =
        std::ranges::any_of(host_.devices, [](const auto& device) { return device.gpuByAddress(); });
    if (any) file("/sys/module/nvidia_peermem", "version", "railwise");
  }

  void addNodes() {
    const std::string all = host_.numa_nodes > 1 ? "0-" + std::to_string(host_.numa_nodes - 1) : "0";
    for (const char* name : {"online", "possible", "has_cpu", "has_memory"})
      file("/sys/devices/system/node", name, all);
    for (uint32_t node = 0; node < host_.numa_nodes; ++node) {
      const std::string folder = "/sys/devices/system/node/node" + std::to_string(node);
      file(folder, "cpumap", cpuMask(node, host_));
      file(folder, "cpulist", cpuList(node, host_.cores));
      std::string distance;
      for (uint32_t other = 0; other < host_.numa_nodes; ++other)
        distance += (other > 0 ? " " : "") + std::string(other == node ? "10" : "20");
      file(folder, "distance", distance);
    }
  }

  const softdev::HostConfig& host_;
  sysfs::MemoryTree tree_{"software machine, host " + host_.name};
  std::map<std::string, PciFunction> bridges_;  // by folder
  gpu::GpuTopology answers_;                    // what the libraries of the GPUs' vendors would say
};

}  // namespace

sysfs::MemoryTree deviceTree(const softdev::HostConfig& host) { return TreeMaker(host).make(); }

bool hasTree(const softdev::HostConfig& host) {
  if (!host.described) return false;
  return !host.gpus.empty() ||
         std::ranges::any_of(host.devices, [](const auto& device) { return !device.pci.empty(); });
}

Outcome<void> writeTree(const sysfs::MemoryTree& tree, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Error{"cannot make the folder " + folder + ": " + error.message()};
  if (!fs::is_empty(folder, error) || error)
    return Error{folder + " is not an empty folder: name one that is, or that is not there yet"};
  for (const auto& [path, item] : tree.items()) {
    const std::string target = folder + path;
    if (item.is_folder) {
      fs::create_directory(target, error);
    } else if (item.is_link) {
      fs::create_symlink(item.content, target, error);
    } else {
      std::ofstream out(target, std::ios::binary);
      out << item.content;
      out.close();
      if (!out) error = std::error_code(errno != 0 ? errno : EIO, std::generic_category());
    }
    if (error) return Error{"cannot write " + target + ": " + error.message()};
  }
  return {};
}

}  // namespace railwise::cli
