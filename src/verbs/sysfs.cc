#include "verbs/sysfs.h"

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace railwise::verbs {
namespace {

std::string realPath(const std::string& path) {
  char resolved[PATH_MAX];
  return ::realpath(path.c_str(), resolved) != nullptr ? std::string(resolved) : std::string();
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// The last PCI function in a path: a driver may have put devices of its own below it (virtio, USB). "": none.
std::string pciFunctionOf(std::string path) {
  while (!path.empty() && pciOrder(path) < 0) path.resize(path.rfind('/'));
  return path;
}

// rxe names the interface it runs on; of others (siw) the GID table does.
std::string interfaceOf(const std::string& rdma_device) {
  const std::string parent = readSysfs(rdma_device + "/parent");
  return parent.empty() ? readSysfs(rdma_device + "/ports/1/gid_attrs/ndevs/0") : parent;
}

// Where the interface's device is, or that of the only one below it (a VLAN's); "": nowhere (veth, dummy), or
// in several places (a bond). No name leads out of the folder: a name in /sys has no slash.
std::string interfaceDevice(const std::string& sys, std::string interface) {
  constexpr int kMostLevels = 8;  // MAX_NEST_DEV of the kernel
  constexpr std::string_view kLower = "lower_";
  for (int level = 0; level < kMostLevels && !interface.empty(); ++level) {
    const std::string folder = sys + "/class/net/" + interface;
    if (std::string device = realPath(folder + "/device"); !device.empty()) return device;
    interface.clear();
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with(kLower)) continue;
      if (!interface.empty()) return {};
      interface = name.substr(kLower.size());
    }
  }
  return {};
}

PciPlace withFunction0(PciPlace place, bool merge_virtual_functions) {
  place.function0_path = place.path;
  if (pciOrder(place.path) < 0) return place;
  std::string function0 = place.path;
  // A virtual function names its NIC; in a VM it has lost it, and stands for itself.
  const std::string nic = merge_virtual_functions ? realPath(place.path + "/physfn") : "";
  if (pciOrder(nic) >= 0) function0 = nic;
  function0.back() = '0';
  // A function passed through to a VM alone has no function 0 beside it: NCCL would look up a device that is
  // not there.
  if (exists(function0) || !exists(place.path)) place.function0_path = function0;
  return place;
}

}  // namespace

std::string readSysfs(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

PciPlace pciPlace(const ibv_device* device, bool merge_virtual_functions) {
  if (library().pci_path == nullptr) return pciPlaceInSysfs(device->name, merge_virtual_functions);
  return withFunction0({.path = library().pci_path(device)}, merge_virtual_functions);
}

PciPlace pciPlaceInSysfs(const std::string& name, bool merge_virtual_functions, const std::string& root) {
  const std::string sys = root.ends_with('/') ? root + "sys" : root + "/sys";
  const std::string folder = sys + "/class/infiniband/" + name;
  const std::string linked = realPath(folder + "/device");
  PciPlace place = {.path = pciFunctionOf(linked), .software = linked.empty() && exists(folder)};
  if (place.path.empty() && place.software)
    place.path = pciFunctionOf(interfaceDevice(sys, interfaceOf(folder)));
  return withFunction0(std::move(place), merge_virtual_functions);
}

int64_t pciOrder(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned function = 0;
  char rest = 0;
  if (std::sscanf(name.c_str(), "%x:%x:%x.%x%c", &domain, &bus, &device, &function, &rest) != 4) return -1;
  return (static_cast<int64_t>(domain) << 20) | (bus << 12) | (device << 4) | function;
}

std::string peerMemoryModule(const std::string& root) {
  struct Sign {
    const char* module;
    const char* file;
  };
  // NVIDIA's as in NCCL 2.30.7, net_ib/gdr.cc; AMD's as in RCCL, net_ib.cc.
  static constexpr Sign kSigns[] = {
      {"nvidia_peermem", "sys/module/nvidia_peermem/version"},
      {"nv_peer_mem", "sys/kernel/mm/memory_peers/nv_mem/version"},
      {"nvidia_peermem, no persistent clients", "sys/kernel/mm/memory_peers/nv_mem_nc/version"},
      {"amdgpu", "sys/kernel/mm/memory_peers/amdkfd/version"},
      {"amdgpu", "sys/kernel/memory_peers/amdkfd/version"},
      {"amdgpu", "sys/memory_peers/amdkfd/version"},
  };
  const std::string folder = root.ends_with('/') ? root : root + '/';
  for (const Sign& sign : kSigns) {
    if (exists(folder + sign.file)) return sign.module;
  }
  return {};
}

}  // namespace railwise::verbs
