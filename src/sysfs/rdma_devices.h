// The RDMA devices of a /sys tree: the place of each device in the PCI tree. Plain values. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sysfs/file_tree.h"

namespace railwise::sysfs {

struct RdmaPlace {
  std::string path;    // the folder of its PCI function; "": the device has no place in the PCI tree
  std::string linked;  // target of its device link; a driver may have put folders below the function
  // Soft-RoCE or soft-iWARP: there is no device link, because the kernel moves the data through an ordinary
  // network interface. The place of the device is that of the card of the interface.
  bool software = false;
  std::string interface;  // network interface of a software device; "": /sys does not name it
};

// `name`: a name in /sys/class/infiniband.
RdmaPlace rdmaPlace(const FileTree& tree, std::string_view name);

// The numbers of its ports, ascending.
std::vector<int> rdmaPorts(const FileTree& tree, std::string_view name);
// Node type 4 is RNIC: an iWARP device, whose link layer is Ethernet too.
bool isIwarp(const FileTree& tree, std::string_view name);
// Turns "400 Gb/sec (4X NDR)" into 400000. The kernel multiplies lanes and signalling rate as net_ib does. 0:
// not known.
int rateMbps(const std::string& rate);

// The PCI function that represents the whole card of a function, so that the ports of a dual-port card, and
// the virtual functions of a NIC (merge_virtual_functions: NCCL_IB_MERGE_VFS), count as one PCI device. It is
// function 0 of the device, or of the NIC of a virtual function. NCCL's net_ib also moves functions that are
// not virtual to device 0 of their bus, whatever that device is; here only an existing device that belongs to
// the card counts. A path that ends in no PCI address is returned unchanged.
std::string cardOf(const FileTree& tree, const std::string& path, bool merge_virtual_functions);

// The network interface of a device without a device link. rxe has a file with the name; for other drivers
// the GID table has it. "": not known.
std::string interfaceOf(const FileTree& tree, std::string_view rdma_device);
// The PCI function of an interface, or of the only interface below it (for a VLAN). "": none (veth, dummy),
// or several (a bond).
std::string functionOfInterface(const FileTree& tree, std::string interface);

}  // namespace railwise::sysfs
