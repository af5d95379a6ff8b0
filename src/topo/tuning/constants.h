// The constants of NCCL's cost model. Source: ncclTunerConstantsDefaults, nvlsEfficiency and
// treeCorrectionFactor in src/graph/tuning.cc of NCCL 2.30.7. 2.31.2 has equal ones in src/tuning. 2.29.7
// differs in one number, which is marked.
#pragma once

#include <array>

#include "topo/settings.h"

namespace railwise::topo::tuning {

using PerProtocol = std::array<double, 3>;  // LL, LL128, Simple
using PerAlgorithm =
    std::array<PerProtocol, 7>;          // Tree, Ring, CollNetDirect, CollNetChain, NVLS, NVLSTree, PAT
using PerScale = std::array<double, 3>;  // 1 node, 2 nodes, more
using PerGeneration = std::array<PerScale, 4>;  // Volta, Ampere, Hopper, Blackwell

// Microseconds before the first step.
inline constexpr PerAlgorithm kBaseLatency = {{
    {6.8, 14.0, 8.4},
    {6.6, 14.0, 8.4},
    {},
    {},
    {},
    {},
    {8.0, 8.0, 8.0},
}};

// Microseconds of a step over NVLink, PCIe, and the network.
inline constexpr PerAlgorithm kNvlinkLatency = {{
    {0.6, 1.25, 4.0},
    {0.6, 1.9, 3.4},
    {0, 0, 3.7},
    {0, 0, 2.8},
    {0, 0, 25},
    {0, 0, 25},
    {0, 0, 4.0},
}};
inline constexpr PerAlgorithm kPciLatency = {{
    {1.0, 1.9, 4.0},
    {1.0, 2.5, 5.7},
    {0, 0, 3.7},
    {0, 0, 2.8},
    {},
    {},
    {0, 0, 4.0},
}};
inline constexpr PerAlgorithm kNetLatency = {{
    {5.0, 8.5, 14},
    {2.7, 4.0, 14},
    {0, 0, 31},
    {0, 0, 30},
    {0, 0, 18},
    {0, 0, 20.9},
    {0, 0, 14},
}};

// GB/s that LL reaches. On one node the row is the GPU's generation. On several nodes the row is 0, and 1
// with CPUs of AMD.
inline constexpr PerGeneration kLlMost = {{
    {39.0, 39.0, 20.4},
    {87.7, 22.5, 19.0},
    {141.0, 45.0, 35.0},
    {2 * 141.0, 2 * 45.0, 2 * 35.0},
}};

// GB/s of one channel.
inline constexpr PerGeneration kRingLl128Channel = {{
    {20.0, 20.0, 20.0},
    {20.0, 20.0, 20.0},
    {36.7, 36.7, 36.7},
    {40.0, 40.0, 40.0},
}};
inline constexpr PerGeneration kTreeLl128Channel = {{
    {20.0, 20.0, 20.0},
    {20.0, 20.0, 20.0},
    {36.7, 36.7, 29.0},
    {55.6, 31.67, 20.0},
}};
inline constexpr PerGeneration kTreeChannel = {{
    {26.5, 18.5, 10.0},
    {24.0, 23.6, 17.8},
    {38.7, 41.4, 36.0},
    {70.0, 42.8, 24.0},
}};
inline constexpr PerGeneration kNvlsTreeChannel = {{
    {26.5, 18.5, 10.0},
    {24.0, 23.6, 17.8},
    {0.0, 57.7, 45.5},
    {0.0, 96.0, 80.0},
}};
inline constexpr double kNvlsTreeChannelBefore2_30 = 43.8;  // 2.28.9 to 2.29.7: Blackwell, more than 2 nodes
inline constexpr NcclVersion kFasterNvlsTree{23003};
inline constexpr NcclVersion kOldestModel{22907};

// Share of the links that NVLS reaches, by generation.
inline constexpr std::array<float, 4> kNvlsEfficiency = {0.0F, 0.0F, 0.85F, 0.74F};

// Correction of a tree's bandwidth for 64 bytes times 2^index.
inline constexpr std::array<std::array<float, 24>, 3> kTreeCorrection = {{
    {1.0F, 1.0F, 1.0F, 1.0F, .9F, .8F, .7F, .7F,  .7F,  .7F,  .6F,  .5F,
     .4F,  .4F,  .5F,  .6F,  .7F, .8F, .9F, 1.0F, 1.0F, 1.0F, 1.0F, 1.0F},
    {1.0F, 1.0F, 1.0F, 1.0F, 1.0F, .9F, .8F, .8F, .8F, .7F,  .6F,  .6F,
     .6F,  .6F,  .6F,  .6F,  .8F,  .9F, .9F, .9F, .9F, 1.0F, 1.0F, 1.0F},
    {.9F, .9F, .9F, .9F, .9F, .9F, .9F, .8F, .7F, .6F, .6F, .5F,
     .5F, .5F, .5F, .6F, .7F, .8F, .7F, .7F, .8F, .9F, .9F, .9F},
}};

}  // namespace railwise::topo::tuning
