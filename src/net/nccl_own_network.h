// NCCL from 2.29.7 on opens its own IB network too, for GIN and RMA (one-sided communication), whatever
// NCCL_NET says, and describes the NICs by it before it asks the plugin (graph/topo.cc, ncclTopoGetSystem).
// Of a device whose name both have, the first description stays: its speed, port, GUID, connections and
// GPUDirect.
#pragma once

#include <span>
#include <string>

#include "base/config.h"

namespace railwise::net {

struct DescribedDevice {
  std::string name;
  bool gpu_direct = false;
};

// Verbs come from libibverbs, as NCCL's own network's do: it sees the same devices.
bool onLibibverbs();

// The note to the user about NCCL's own IB network; "" when that network will not describe these devices.
// `real`: onLibibverbs().
std::string ownNetworkNote(const Config& config, bool real, std::span<const DescribedDevice> devices);

}  // namespace railwise::net
