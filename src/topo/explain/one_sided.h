// Which NIC serves the one-sided communication (windows, host RMA, GIN) of each GPU, by NCCL's rule. A net
// plugin without tables for it, such as Railwise, leaves it to NCCL's own IB network, which NCCL opens beside
// the plugin (2.29.7 and newer). NCCL chooses as for the plugin's NICs (ncclTopoGetLocalNetType), but by
// direct paths: neither PXN nor GPUDirect's limit of distance changes them. Pure; thread-safe.
#pragma once

#include "topo/explain/explain.h"

namespace railwise::topo {

// Does nothing where it is not known that any NIC serves it: an older release, RCCL, no GPUDirect, a file
// whose <net> have neither gin nor rma (NCCL 2.29.7 and newer dump them), or a fused NIC before 2.30.7.
// From 2.30.7 on the members of a fused NIC serve it, each for itself.
void addOneSided(const Machine& machine, MachineExplanation& all);

}  // namespace railwise::topo
