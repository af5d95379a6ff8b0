// The bandwidths that NCCL's search tries for a channel. Thread-safe.
#pragma once

#include <vector>

#include "topo/settings.h"

namespace railwise::topo {

// In GB/s, from fast to slow. `sm`: the lowest compute capability of all GPUs, 90 means 9.0. `inter`: the
// network takes part.
std::vector<float> searchSpeeds(NcclVersion version, bool inter, int sm);

}  // namespace railwise::topo
