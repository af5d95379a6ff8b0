// What the plugin does with its model of the machine: it gives NCCL a topology file where NCCL has none
// (RAILWISE_TOPOLOGY), and finds the rail of each device and its paths to the GPUs. Called once at init, from
// one thread at a time.
#pragma once

#include <vector>

#include "base/config.h"
#include "net/device/device.h"
#include "net/topology/path_bandwidth.h"

namespace railwise::net {

// Sets NCCL_TOPO_FILE for this process when RAILWISE_TOPOLOGY asks for it and nothing else gives NCCL a
// topology. NCCL reads its conf files into the environment before it loads plugins (misc/param.cc, initEnv)
// and NCCL_TOPO_FILE after it has initialised them (graph/topo.cc, ncclTopoGetSystem). Answers the file in
// force, "" for none. Never fails: what cannot be used is said in one line, and NCCL goes on without.
std::string provideTopology(const Config& config);

// Sets properties.rail of the devices, unless NCCL_IB_HCA has named a rail of any: the NICs in the order in
// which the GPUs of the host use them (policy.h), so that the k-th NIC of equal hosts is on rail k. -1 where
// no GPU uses the NIC, or the machine cannot be read. Answers the paths between GPUs and devices (empty where
// the machine cannot be read); RAILWISE_GPU that is not among the GPUs is reported. `topology_file`:
// provideTopology's answer.
PathBandwidth findRails(const Config& config, const std::string& topology_file,
                        std::vector<std::unique_ptr<Device>>& devices);

}  // namespace railwise::net
