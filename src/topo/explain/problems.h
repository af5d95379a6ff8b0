// Finds in a machine's explanation what costs speed. Internal to explain.
#pragma once

#include "topo/explain/explain.h"

namespace railwise::topo {

// `gpu` is the GPU's index in the graph of `paths`, which may be the graph of a domain.
void addGpuProblems(const Machine& machine, const Paths& paths, int gpu, GpuExplanation& explanation);
void addMachineProblems(const Machine& machine, MachineExplanation& all);

}  // namespace railwise::topo
