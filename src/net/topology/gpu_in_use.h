// Which GPU a connection's data will be on. NCCL does not pass the GPU to connect, but has made it the
// current device of its thread. Any thread.
#pragma once

#include <span>
#include <string>

#include "base/settings/config.h"
#include "net/topology/path_bandwidth.h"

namespace railwise::net {

// PCI address of the calling thread's current CUDA (or HIP) device, "" if there is none. Asks the driver's
// library if this process has loaded it, and never loads it. Takes a few microseconds.
std::string currentGpu();

// Has this process loaded the library of a GPU driver, as every process that computes on GPUs has?
bool gpuLibraryLoaded();

// Chooses the GPU (its index in `paths`) for a connection over `rails`: RAILWISE_GPU, else currentGpu(), else
// the nearest one; -1: there is no GPU.
int gpuInUse(const Config& config, const PathBandwidth& paths, std::span<const RailPort> rails);

}  // namespace railwise::net
