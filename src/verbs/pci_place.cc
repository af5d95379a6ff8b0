#include "verbs/pci_place.h"

#include "sysfs/rdma_devices.h"

namespace railwise::verbs {

PciPlace pciPlace(const ibv_device* device, bool merge_virtual_functions) {
  const sysfs::FileTree& tree = sysfs::liveTree();
  PciPlace place;
  if (library().pci_path != nullptr) {
    place.path = library().pci_path(device);
  } else {
    sysfs::RdmaPlace found = sysfs::rdmaPlace(tree, device->name);
    place.path = std::move(found.path);
    place.software = found.software;
  }
  place.function0_path = sysfs::cardOf(tree, place.path, merge_virtual_functions);
  return place;
}

}  // namespace railwise::verbs
