// A machine without GPUs: NCCL cannot run there, but its NICs can be shown.
#pragma once

#include "cli/topo/machine_options.h"

namespace railwise::cli {

// Prints the NICs of the machine that the options name, with NUMA node and PCI path. Returns the exit status.
int showWithoutGpus(const char* command, const MachineOptions& options);

}  // namespace railwise::cli
