// The GPUs of a machine as their vendors' libraries describe them: the structs of the public header
// (railwise/topology.h has the meaning of each field), by the names that this folder uses. Plain values, any
// thread.
#pragma once

#include "railwise/topology.h"

namespace railwise::gpu {

using Vendor = topology::GpuVendor;
using LinkKind = topology::GpuLinkKind;
using LatencyClass = topology::GpuLatency;
using Link = topology::GpuLink;
using Health = topology::GpuHealth;
using Device = topology::GpuDevice;
using PeerStatus = topology::GpuPeer;
using GpuTopology = topology::GpuTopology;

// No MIG instance: a whole GPU, or a partition of one of AMD's.
inline bool isWhole(const Device& device) { return device.parent < 0; }

}  // namespace railwise::gpu
