// What this process computes with: the GPU that a connection's data will be on, its driver, and the NCCL that
// has loaded the plugin. NCCL does not pass the GPU to connect, but has made it the current device of its
// thread. Any thread.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/settings/config.h"
#include "net/topology/path_bandwidth.h"
#include "topo/nccl_release.h"

namespace railwise::net {

// PCI address of the calling thread's current CUDA (or HIP) device, "" if there is none. Asks the driver's
// library if this process has loaded it, and never loads it. Takes a few microseconds.
std::string currentGpu();

// Has this process loaded the library of a GPU driver, as every process that computes on GPUs has?
bool gpuLibraryLoaded();

// Chooses the GPU (its index in `paths`) for a connection over `rails`: RAILWISE_GPU, else currentGpu(), else
// the nearest one; -1: there is no GPU.
int gpuInUse(const Config& config, const PathBandwidth& paths, std::span<const RailPort> rails);

// The version of the GPU driver, for the handshake: ends whose drivers differ are named
// (net/wireup/asymmetry.h). "NVIDIA 550.90.07" or "AMD 6.8.5", read from /sys/module; NVIDIA's where both
// drivers are loaded. "": no driver, or one that tells no version, as the amdgpu driver of the kernel itself.
// Asks no library of the vendor, because such a library may hang when a GPU is broken.
std::string gpuDriver(const Config& config);

// The release of the NCCL in this process, which its ncclGetVersion() tells. Nothing: no NCCL is found
// (another program uses the plugin, or NCCL is linked to it statically and hides its functions). The versions
// of the net API tell less than that: NCCL 2.30.3 to 2.31 ask for the same one.
std::optional<topo::NcclVersion> ncclInUse();

// The release whose rules the model of the machine follows (topo::chooseRules() with ncclInUse()). Logs the
// release of this process, and what of its rules is not known.
topo::NcclVersion rulesInUse();

}  // namespace railwise::net
