// Where an RDMA device of a /sys tree is in the PCI tree, as Railwise's plugin tells NCCL (verbs/sysfs.h has
// the same rule for the devices that it opens) and as NCCL's own plugin, net_ib, does. Plain values;
// thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "topo/settings.h"
#include "topo/sources/file_tree.h"

namespace railwise::topo {

struct NetPlace {
  std::string path;  // the folder of its PCI function; "": it has no place
  // What NCCL is told: the functions of a card, and by NCCL_IB_MERGE_VFS its virtual functions, count as one
  // device.
  std::string told_path;
  // Soft-RoCE or soft-iWARP: no device link. Its place is that of the card that its interface is on.
  bool software = false;
  std::string interface;  // of a software device; "": not told
};

// `name`: of /sys/class/infiniband.
NetPlace netPlace(const FileTree& tree, std::string_view name, const Settings& settings);

// The name of the interface that a device without a device link runs on: rxe tells it, of others the GID
// table does.
// "": not told.
std::string interfaceOf(const FileTree& tree, std::string_view rdma_device);
// The PCI function that an interface, or the only one below it (a VLAN's), is on. "": none (veth, a bond).
std::string functionOfInterface(const FileTree& tree, std::string interface);

}  // namespace railwise::topo
