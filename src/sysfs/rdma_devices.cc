#include "sysfs/rdma_devices.h"

#include <algorithm>
#include <cstdlib>

#include "base/text/words.h"
#include "sysfs/pci_devices.h"

namespace railwise::sysfs {

RdmaPlace rdmaPlace(const FileTree& tree, std::string_view name) {
  const std::string folder = "/sys/class/infiniband/" + std::string(name);
  RdmaPlace place;
  place.linked = realPathOf(tree, folder + "/device");
  place.software = place.linked.empty() && tree.exists(folder);
  if (place.software) place.interface = interfaceOf(tree, name);
  place.path = place.software ? functionOfInterface(tree, place.interface) : functionIn(place.linked);
  return place;
}

std::vector<int> rdmaPorts(const FileTree& tree, std::string_view name) {
  std::vector<int> ports;
  for (const std::string& file : tree.list("/sys/class/infiniband/" + std::string(name) + "/ports"))
    if (const auto number = numberIn<int>(file); number && *number > 0) ports.push_back(*number);
  std::sort(ports.begin(), ports.end());
  return ports;
}

bool isIwarp(const FileTree& tree, std::string_view name) {
  return firstLine(tree, "/sys/class/infiniband/" + std::string(name) + "/node_type").starts_with("4:");
}

int rateMbps(const std::string& rate) {
  constexpr float kMostGbps = 1e6F;
  const float gbps = std::strtof(rate.c_str(), nullptr);
  return gbps > 0 && gbps < kMostGbps ? static_cast<int>(gbps * 1000 + 0.5F) : 0;
}

std::string cardOf(const FileTree& tree, const std::string& path, bool merge_virtual_functions) {
  if (pciOrder(path) < 0) return path;
  // A virtual function has a link to its NIC. In a VM it does not, and then represents itself.
  const std::string nic = merge_virtual_functions ? realPathOf(tree, path + "/physfn") : "";
  std::string card = pciOrder(nic) >= 0 ? nic : path;
  card.back() = '0';
  // If a single function is passed through to a VM, there is no function 0 beside it. NCCL would then look
  // for a device that does not exist.
  return tree.exists(card) || !tree.exists(path) ? card : path;
}

std::string interfaceOf(const FileTree& tree, std::string_view rdma_device) {
  const std::string folder = "/sys/class/infiniband/" + std::string(rdma_device);
  const std::string parent = firstLine(tree, folder + "/parent");
  return parent.empty() ? firstLine(tree, folder + "/ports/1/gid_attrs/ndevs/0") : parent;
}

// `interface` cannot lead out of the folder, because a name in /sys has no slash.
std::string functionOfInterface(const FileTree& tree, std::string interface) {
  constexpr int kMostLevels = 8;  // MAX_NEST_DEV of the kernel
  constexpr std::string_view kLower = "lower_";
  for (int level = 0; level < kMostLevels && !interface.empty(); ++level) {
    const std::string folder = "/sys/class/net/" + interface;
    if (const std::string device = realPathOf(tree, folder + "/device"); !device.empty())
      return functionIn(device);
    interface.clear();
    for (const std::string& name : tree.list(folder)) {
      if (!name.starts_with(kLower)) continue;
      if (!interface.empty()) return {};
      interface = name.substr(kLower.size());
    }
  }
  return {};
}

}  // namespace railwise::sysfs
