// What verbs does not say about a device and /sys does.
#pragma once

#include <string>

#include "verbs/library.h"

namespace railwise::verbs {

// First line of a sysfs file without the newline, or "" when it cannot be read.
std::string readSysfs(const std::string& path);

// The device's place in the PCI tree: realpath of /sys/class/infiniband/NAME/device (or the software device's
// configured path), as is and with NCCL's function-0 rule (the ports of a dual-port card count as one PCI
// device: last digit set to 0 where such a function exists). Both "" when the device has no PCI place.
struct PciPlace {
  std::string path;
  std::string function0_path;
};
PciPlace pciPlace(const ibv_device* device);

// "0000:3b:00.1" at the end of `path` as a number that orders as NCCL orders devices; -1 when there is none.
int64_t pciOrder(const std::string& path);

// Can NICs read and write GPU memory through the peer-memory module (nvidia_peermem, nv_peer_mem, amdgpu's)?
bool peerMemoryModuleLoaded();

}  // namespace railwise::verbs
