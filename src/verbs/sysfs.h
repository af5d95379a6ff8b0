// What verbs does not say about a device and /sys does.
#pragma once

#include <string>

#include "verbs/library.h"

namespace railwise::verbs {

// First line of a sysfs file without the newline, or "" when it cannot be read.
std::string readSysfs(const std::string& path);

// The device's place in the PCI tree, as is and as NCCL is told it, so that the ports of a dual-port card,
// and the virtual functions of a NIC (NCCL_IB_MERGE_VFS), count as one PCI device: function 0 of the same
// device, or of the NIC of a virtual function. net_ib also moves functions that are not virtual to device 0
// of their bus, whatever that is; here only what is there, and belongs together, counts. Both "" when the
// device has no PCI place.
struct PciPlace {
  std::string path;
  std::string function0_path;
  // Soft-RoCE or soft-iWARP: the kernel moves the data, through an ordinary network interface, so no GPU's
  // memory can be registered. Its place is that of the interface's card.
  bool software = false;
};
PciPlace pciPlace(const ibv_device* device, bool merge_virtual_functions = true);

// The same for a device of the kernel's by its name: realpath of /sys/class/infiniband/NAME/device, cut at
// the last PCI function in it (a virtio function's driver is one level below). Without that link: of the
// interface it runs on, also below VLANs. `root`: where /sys is.
PciPlace pciPlaceInSysfs(const std::string& name, bool merge_virtual_functions = true,
                         const std::string& root = "/");

// "0000:3b:00.1" at the end of `path` as a number that orders as NCCL orders devices; -1 when there is none.
int64_t pciOrder(const std::string& path);

// The loaded kernel module through which NICs read and write GPU memory that is registered by its address:
// nvidia_peermem, nv_peer_mem or amdgpu's; "" when none is. `root`: where /sys is.
std::string peerMemoryModule(const std::string& root = "/");

}  // namespace railwise::verbs
