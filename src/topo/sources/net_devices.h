// The network devices of a /sys tree as Railwise's plugin reports them to NCCL, or (Settings::net_ib) NCCL's
// own (net_ib/init.cc of NCCL 2.30.7), and as the plugin of a device that is neither InfiniBand nor Ethernet
// (AWS's EFA) would. Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topo/machine/fusion.h"
#include "topo/settings.h"
#include "topo/sources/file_tree.h"

namespace railwise::topo {

inline constexpr std::size_t kMaxNetDevices = 32;  // MAX_IB_DEVS

struct NetDefaults {
  int mbps = 400000;  // where the tree has no rate
  bool gdr = true;    // GPUDirect RDMA is supported
};

// One entry for each active port of /sys/class/infiniband, in the plugin's order: "dev" is the index. busid
// is that of the PCI device which NCCL hangs the port on; "" where that is no PCI device of the tree.
std::vector<NetDevice> netDevices(const FileTree& tree, const Settings& settings, const NetDefaults& defaults,
                                  std::vector<std::string>* remarks);

// "0c42:a103:0054:7e1a" -> 0xc42a10300547e1a; 0: no GUID.
uint64_t parseGuid(std::string_view text);

}  // namespace railwise::topo
