// The version of the GPU driver, for the handshake: ends whose drivers differ are named
// (net/wireup/asymmetry.h). Any thread.
#pragma once

#include <string>

#include "base/settings/config.h"

namespace railwise::net {

// "NVIDIA 550.90.07" or "AMD 6.8.5", read from /sys/module; NVIDIA's where both drivers are loaded. "": no
// driver, or one that tells no version, as the amdgpu driver of the kernel itself. Asks no library of the
// vendor, because such a library may hang when a GPU is broken.
std::string gpuDriver(const Config& config);

}  // namespace railwise::net
