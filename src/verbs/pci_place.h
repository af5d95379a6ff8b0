// Where a device is in the PCI tree. A software device reports that itself; for other devices /sys has it.
#pragma once

#include <string>

#include "verbs/library.h"

namespace railwise::verbs {

// The device's path in the PCI tree (`path`), and the path that NCCL gets (`function0_path`, sysfs::cardOf).
// Both are "" if the device has no place in the PCI tree.
struct PciPlace {
  std::string path;
  std::string function0_path;
  // Soft-RoCE or soft-iWARP: the device cannot register memory of a GPU.
  bool software = false;
};
PciPlace pciPlace(const ibv_device* device, bool merge_virtual_functions = true);

}  // namespace railwise::verbs
