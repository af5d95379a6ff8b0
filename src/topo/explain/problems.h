// What costs speed on a machine, found in its explanation. Internal to explain.
#pragma once

#include "topo/explain/explain.h"

namespace railwise::topo {

// `gpu`: its index in the graph of `paths`, which may be a domain's.
void addGpuProblems(const Machine& machine, const Paths& paths, int gpu, GpuExplanation& explanation);
void addMachineProblems(const Machine& machine, MachineExplanation& all);

}  // namespace railwise::topo
