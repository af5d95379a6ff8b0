// The network devices of a /sys tree, as Railwise's plugin reports them to NCCL. With Settings::net_ib, as
// NCCL's own plugin reports them (net_ib/init.cc of NCCL 2.30.7). A device that is neither InfiniBand nor
// Ethernet (AWS's EFA) is listed as its vendor's plugin would report it. Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sysfs/file_tree.h"
#include "topo/machine/fusion.h"
#include "topo/settings.h"

namespace railwise::topo {

inline constexpr std::size_t kMaxNetDevices = 32;  // MAX_IB_DEVS

struct NetDefaults {
  int mbps = 400000;  // Mb/s of a port whose rate is not in the tree
  bool gdr = true;    // GPUDirect RDMA is supported
};

// One entry for each active port in /sys/class/infiniband, in the plugin's order; the index is NCCL's "dev".
// The entry's busid is that of the PCI device under which NCCL places the port. It is "" if the tree has no
// such PCI device.
std::vector<NetDevice> netDevices(const sysfs::FileTree& tree, const Settings& settings,
                                  const NetDefaults& defaults, std::vector<std::string>* remarks);

// Turns "0c42:a103:0054:7e1a" into 0xc42a10300547e1a. 0: `text` is not a GUID.
uint64_t parseGuid(std::string_view text);

}  // namespace railwise::topo
