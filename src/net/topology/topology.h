// What the plugin does with its model of the machine: it gives NCCL a topology file if NCCL has none
// (RAILWISE_TOPOLOGY), and finds the rail of each device and the paths between devices and GPUs. Net calls
// both functions at init, from one thread at a time.
#pragma once

#include <vector>

#include "base/settings/config.h"
#include "net/device/device.h"
#include "net/topology/path_bandwidth.h"

namespace railwise::net {

// Sets NCCL_TOPO_FILE for this process if RAILWISE_TOPOLOGY asks for it and nothing else gives NCCL a
// topology. NCCL reads its conf files into the environment before it loads plugins (misc/param.cc, initEnv),
// and reads NCCL_TOPO_FILE after it has initialised the plugins (graph/topo.cc, ncclTopoGetSystem). Returns
// the file in force, "" for none. Never fails: a file that cannot be used is logged in one line, and NCCL
// continues without it.
std::string provideTopology(const Config& config);

// Sets properties.rail of the devices, unless NCCL_IB_HCA names a rail of any device. The NICs are numbered
// in the order in which the GPUs of the host use them (localNets() of topo/paths/policy.h). The k-th NIC of
// equal hosts is then on the same rail. The rail is -1 if no GPU uses the NIC, or if the machine cannot be
// read. Returns the paths between GPUs and devices (empty if the machine cannot be read). Logs a RAILWISE_GPU
// that is not among the GPUs. `topology_file`: what provideTopology() returned.
PathBandwidth findRails(const Config& config, const std::string& topology_file,
                        const std::vector<std::unique_ptr<Device>>& devices);

}  // namespace railwise::net
