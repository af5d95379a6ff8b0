// The part of `railwise explain` that NCCL's search decides: by which NICs the rings and trees of a
// communicator of several equal hosts enter and leave a host, and at which GPUs. Thread-safe.
#pragma once

#include "topo/explain/explain.h"
#include "topo/search/graph_file.h"

namespace railwise::topo {

// Runs the search, and adds its answer to `all`, which explain() made of the machine. `file`:
// NCCL_GRAPH_FILE; null: there is none.
void addChannels(const Machine& machine, const GraphFile* file, MachineExplanation& all);

}  // namespace railwise::topo
