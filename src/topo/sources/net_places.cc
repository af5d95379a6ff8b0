#include "topo/sources/net_places.h"

#include "topo/document/bus_id.h"
#include "topo/sources/pci_devices.h"

namespace railwise::topo {
namespace {

std::string firstLine(const FileTree& tree, const std::string& path) {
  const std::string text = tree.read(path).value_or("");
  return text.substr(0, text.find('\n'));
}

std::string realPathOf(const FileTree& tree, const std::string& path) {
  Outcome<std::string> real = tree.realPath(path);
  return real.ok() ? std::move(*real) : std::string();
}

// The last PCI function in a path: a driver may have put devices of its own below it (virtio, USB). "": none.
std::string functionIn(std::string path) {
  while (!path.empty() && !isBusId(baseName(path))) path.resize(path.rfind('/'));
  return path;
}

std::string functionZero(std::string path) {
  path.back() = '0';
  return path;
}

// A virtual function names its NIC; in a VM it has lost it, and stands for itself, as does a function without
// a function 0 beside it.
std::string toldByRailwise(const FileTree& tree, const std::string& path, const Settings& settings) {
  if (path.empty()) return path;
  const std::string nic = settings.ib_merge_vfs != 0 ? realPathOf(tree, path + "/physfn") : "";
  const std::string told = functionZero(isBusId(baseName(nic)) ? nic : path);
  return tree.exists(told) ? told : path;
}

// Device 0 of the bus, whatever that is.
std::string toldByNetIb(std::string path, const Settings& settings) {
  if (path.size() < kBusIdLength || !isBusId(baseName(path))) return path;
  path = functionZero(std::move(path));
  if (settings.ib_merge_vfs != 0) path[path.size() - 3] = path[path.size() - 4] = '0';
  return path;
}

}  // namespace

std::string interfaceOf(const FileTree& tree, std::string_view rdma_device) {
  const std::string folder = "/sys/class/infiniband/" + std::string(rdma_device);
  const std::string parent = firstLine(tree, folder + "/parent");
  return parent.empty() ? firstLine(tree, folder + "/ports/1/gid_attrs/ndevs/0") : parent;
}

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

NetPlace netPlace(const FileTree& tree, std::string_view name, const Settings& settings) {
  NetPlace place;
  const std::string linked = realPathOf(tree, "/sys/class/infiniband/" + std::string(name) + "/device");
  place.software = linked.empty();
  if (place.software) place.interface = interfaceOf(tree, name);
  if (settings.net_ib) {
    place.path = linked;
    place.told_path = toldByNetIb(linked, settings);
  } else {
    place.path = place.software ? functionOfInterface(tree, place.interface) : functionIn(linked);
    place.told_path = toldByRailwise(tree, place.path, settings);
  }
  return place;
}

}  // namespace railwise::topo
