// NCCL from 2.29.7 on also opens its own IB network, for GIN and RMA (one-sided communication), whatever
// NCCL_NET says. NCCL takes the description of the NICs from that network before it asks the plugin
// (graph/topo.cc, ncclTopoGetSystem). If both networks name a device, NCCL keeps the first description:
// speed, port, GUID, number of connections and GPUDirect.
#pragma once

#include <span>
#include <string>

#include "base/settings/config.h"

namespace railwise::net {

struct DescribedDevice {
  std::string name;
  bool gpu_direct = false;
};

// True if verbs come from libibverbs. NCCL's own network uses libibverbs too, so it sees the same devices.
bool onLibibverbs();

// The note to the user about NCCL's own IB network; "" if that network will not describe these devices.
// `real`: the result of onLibibverbs().
std::string ownNetworkNote(const Config& config, bool real, std::span<const DescribedDevice> devices);

}  // namespace railwise::net
