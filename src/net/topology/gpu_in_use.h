// Which GPU a connection's data will live on. NCCL does not say it when it connects, but has made the GPU the
// current device of its thread.
#pragma once

#include <span>
#include <string>

#include "base/config.h"
#include "net/topology/path_bandwidth.h"

namespace railwise::net {

// PCI address of the current CUDA (or HIP) device of the calling thread, "" when there is none: asks the
// driver's library if this process has loaded it, and never loads it. A few microseconds.
std::string currentGpu();

// The GPU (of `paths`) for a connection over `rails`: RAILWISE_GPU, else currentGpu(), else the nearest; -1:
// no GPU.
int gpuInUse(const Config& config, const PathBandwidth& paths, std::span<const RailPort> rails);

}  // namespace railwise::net
