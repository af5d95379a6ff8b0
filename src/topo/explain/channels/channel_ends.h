// The part of `railwise explain` that NCCL's search decides: by which NICs the rings and trees of a
// communicator of several equal hosts enter and leave a host, and at which GPUs. Thread-safe.
#pragma once

#include "topo/explain/explain.h"

namespace railwise::topo {

// Runs the search, and adds its answer to `all`, which explain() made of the machine.
void addChannels(const Machine& machine, MachineExplanation& all);

}  // namespace railwise::topo
