#include "topo/exports/device_facts.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <vector>

#include "sysfs/pci_devices.h"
#include "sysfs/rdma_devices.h"
#include "topo/sources/generate/flat_machine.h"

namespace railwise::topo {
namespace {

constexpr int kFirstRenderMinor = 128;  // of the kernel's DRM

// 4 of "mlx5_4"; -1: the name does not end with a number.
int numberAtEnd(const std::string& name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  int number = -1;
  if (last != std::string::npos) std::from_chars(name.data() + last + 1, name.data() + name.size(), number);
  return number;
}

constexpr char kRdmaClass[] = "/sys/class/infiniband";

// "pci0000:c9" of ".../pci0000:c9/0000:c9:01.0/...". "": the path has no root bus.
std::string rootBusIn(const std::string& path) {
  for (const std::string& component : sysfs::splitPath(path))
    if (component.starts_with("pci") && component.find(':') != std::string::npos) return component;
  return "";
}

std::string nameThatBegins(const sysfs::FileTree& tree, const std::string& folder, const char* begin) {
  for (const std::string& name : tree.list(folder))
    if (name.starts_with(begin)) return name;
  return "";
}

// A recorded tree without a visible switch may be that of a VM: treeIsHidden() cannot tell then.
std::optional<bool> hiddenTree(const sysfs::FileTree& tree, const std::vector<sysfs::PciDevice>& gpus,
                               const std::vector<std::string>& nics) {
  if (treeIsHidden(tree, gpus, nics)) return true;
  const auto below_switch = [](const sysfs::PciDevice& gpu) {
    return sysfs::busIdsAbove(gpu.path).size() > 1;  // a root port is no switch
  };
  if (tree.live() || std::any_of(gpus.begin(), gpus.end(), below_switch)) return false;
  return std::nullopt;
}

// The number at the beginning of "0,96" or "0-1"; -1: there is none.
int leadingNumber(const std::string& text) {
  int number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void readSiblings(const sysfs::FileTree& tree, DeviceFacts& facts) {
  const std::string folder = "/sys/devices/system/cpu";
  for (const std::string& name : tree.list(folder)) {
    const int cpu = name.starts_with("cpu") ? leadingNumber(name.substr(3)) : -1;
    if (cpu < 0) continue;
    const int first =
        leadingNumber(sysfs::firstLine(tree, folder + "/" + name + "/topology/thread_siblings_list"));
    if (first >= 0) facts.first_sibling[cpu] = first;
  }
}

}  // namespace

DeviceFacts readDeviceFacts(const sysfs::FileTree& tree) {
  DeviceFacts facts;
  for (const sysfs::PciDevice& device : sysfs::pciDevices(tree)) {
    if (const std::string root = rootBusIn(device.path); !root.empty()) facts.pcie_roots[device.busid] = root;
    if (const std::string node = nameThatBegins(tree, device.path + "/drm", "renderD"); !node.empty())
      facts.render_nodes[device.busid] = node;
  }
  std::vector<std::string> nics;
  for (const std::string& name : tree.list(kRdmaClass)) {
    const std::string path = sysfs::rdmaPlace(tree, name).path;
    if (path.empty()) continue;
    nics.push_back(path);
    const std::string node =
        nameThatBegins(tree, std::string(kRdmaClass) + "/" + name + "/device/infiniband_verbs", "uverbs");
    if (!node.empty()) facts.uverbs[name] = node;
  }
  const auto gpus = sysfs::gpuDevices(tree);
  if (!gpus.empty()) facts.tree_hidden = hiddenTree(tree, gpus, nics);
  for (const int node : sysfs::numaNodes(tree))
    if (const std::string mask = sysfs::nodeMask(tree, std::to_string(node)); !mask.empty())
      facts.numa_masks[node] = mask;
  readSiblings(tree, facts);
  return facts;
}

std::string gpuDeviceFile(bool amd, int dev, const std::string& render_node) {
  if (!amd) return "/dev/nvidia" + std::to_string(dev);
  return "/dev/dri/" +
         (render_node.empty() ? "renderD" + std::to_string(kFirstRenderMinor + dev) : render_node);
}

std::vector<NicFile> nicFiles(const HostView& host, const DeviceFacts& facts, bool* assumed) {
  std::vector<NicFile> files;
  std::set<int> numbers;
  for (std::size_t nic = 0; nic < host.nics.size(); ++nic) {
    for (const NicPort& port : host.nics[nic].ports) {
      const auto known = [&](const NicFile& file) { return file.device == port.device; };
      if (port.port == 0 || std::any_of(files.begin(), files.end(), known)) continue;
      files.push_back({.device = port.device, .path = "", .nic = static_cast<int>(nic)});
      numbers.insert(numberAtEnd(port.device));
    }
  }
  const bool all_told = std::all_of(
      files.begin(), files.end(), [&](const NicFile& file) { return facts.uverbs.count(file.device) != 0; });
  *assumed = !all_told;
  const bool by_name = numbers.count(-1) == 0 && numbers.size() == files.size();
  for (std::size_t i = 0; i < files.size(); ++i)
    files[i].path =
        "/dev/infiniband/" +
        (all_told ? facts.uverbs.at(files[i].device)
                  : "uverbs" + std::to_string(by_name ? numberAtEnd(files[i].device) : static_cast<int>(i)));
  return files;
}

}  // namespace railwise::topo
