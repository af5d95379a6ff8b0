// One port of an RDMA device as verbs reports it, and where the device is in the PCI tree.
#pragma once

#include <string>

#include "sysfs/file_tree.h"
#include "verbs/library.h"

namespace railwise::verbs {

struct Port {
  uint8_t number = 0;  // from 1
  bool active = false;
  bool ethernet = false;  // RoCE or iWARP; false: InfiniBand
  bool reliable = false;  // InfiniBand or RoCE: supports the queue pairs that we need (iWARP and EFA do not)
  bool iwarp = false;     // only the communication manager connects queue pairs (cm/connection_manager.h)
  uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_1024;      // in use
  ibv_mtu max_mtu = IBV_MTU_1024;  // what the port can
  bool grh_required = false;
  int gid_entries = 0;
  int pkey_entries = 0;
  uint32_t max_message_bytes = 0;
  int speed_mbps = 0;
  // Network ports of the bond behind this one, each for queue pairs of its own; lagPorts().
  uint8_t lag_ports = 1;
};

// `ask_speed`: take the speed from ibv_query_port_speed if libibverbs has it (NCCL_IB_QUERY_PORT_SPEED),
// otherwise from the codes of speed and width. Errors: kSystem, not logged.
Result<Port> queryPort(ibv_context* context, uint8_t number, bool ask_speed = true);

// Speed of a link in Mb/s from the verbs codes; 0 for unknown codes. Source: InfiniBand specification 1.7,
// PortInfo LinkSpeedActive and LinkWidthActive; the values are the effective data rates that NCCL uses (SDR
// 2500, QDR 10000, FDR10 10000, FDR 14000, EDR 25000, HDR 50000, NDR 100000, XDR 200000).
int linkSpeedMbps(unsigned active_speed, unsigned active_width);

// How many network ports a bond has behind this RoCE port, if the driver lets a queue pair choose between
// them; else 1. `tree` has /sys.
uint8_t lagPorts(ibv_context* context, const Port& port, const sysfs::FileTree& tree = sysfs::liveTree());

// Where a device is in the PCI tree. A software device reports that itself; for other devices /sys has it.
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
