// The bus bandwidth of all_reduce that the model of a machine allows, and that NCCL's own model expects.
// Pure; thread-safe.
#pragma once

#include "doctor/pair/measuring/facts.h"
#include "doctor/pair/measuring/plan.h"
#include "topo/machine/machine.h"

namespace railwise::doctor::pair {

// A ring of NCCL's enters and leaves a host through the NIC of each channel, so all_reduce between hosts
// cannot be faster than the sum over the NICs that the channels use, each with what its port and its path to
// the GPU carry; nor than what one GPU sends to the next inside the host.
AllReduceModel allReduceModel(const topo::Machine& machine);

// What `railwise topo expect` says of `hosts` machines.
NcclModel ncclModel(const topo::Machine& machine, int hosts);

}  // namespace railwise::doctor::pair
