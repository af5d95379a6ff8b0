// NCCL tuner plugin API version 5: init receives the communicator's id, its NVLink domains, and the constants
// of NCCL's model, which it may change. NCCL 2.28 and 2.29 take this version as their newest. Source:
// NCCL 2.30.7, src/include/plugin/tuner/tuner_v5.h; our own declarations.
#pragma once

#include "nccl/tuner_types.h"

struct ncclNvlDomainInfo_v5_t {
  int nNvlDomains;
  int minRanksPerNvlDomain;
  int maxRanksPerNvlDomain;
};
static_assert(sizeof(ncclNvlDomainInfo_v5_t) == 12);

// 7 algorithms, 3 protocols, 3 kinds of links (NVLink, PCI, network), 4 generations of GPUs, 3 numbers of
// nodes.
struct ncclTunerConstants_v5_t {
  double baseLatencies[7][3];
  double hwLatencies[3][7][3];
  double llMaxBws[4][3];
  double perChMaxRingLL128Bws[4][3];
  double perChMaxTreeLL128Bws[4][3];
  double perChMaxTreeBws[4][3];
  double perChMaxNVLSTreeBws[4][3];
};
static_assert(sizeof(ncclTunerConstants_v5_t) == 1152);
static_assert(offsetof(ncclTunerConstants_v5_t, baseLatencies) == 0);
static_assert(offsetof(ncclTunerConstants_v5_t, hwLatencies) == 168);
static_assert(offsetof(ncclTunerConstants_v5_t, llMaxBws) == 672);
static_assert(offsetof(ncclTunerConstants_v5_t, perChMaxRingLL128Bws) == 768);
static_assert(offsetof(ncclTunerConstants_v5_t, perChMaxTreeLL128Bws) == 864);
static_assert(offsetof(ncclTunerConstants_v5_t, perChMaxTreeBws) == 960);
static_assert(offsetof(ncclTunerConstants_v5_t, perChMaxNVLSTreeBws) == 1056);

struct ncclTuner_v5_t {
  const char* name;
  ncclResult_t (*init)(void** context, uint64_t commId, size_t nRanks, size_t nNodes,
                       ncclDebugLogger_t logFunction, ncclNvlDomainInfo_v5_t* nvlDomainInfo,
                       ncclTunerConstants_v5_t* constants);
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collType, size_t nBytes, int numPipeOps,
                              float** collCostTable, int numAlgo, int numProto, int regBuff, int* nChannels);
  ncclResult_t (*finalize)(void* context);
};
static_assert(sizeof(ncclTuner_v5_t) == 32);
static_assert(offsetof(ncclTuner_v5_t, name) == 0);
static_assert(offsetof(ncclTuner_v5_t, init) == 8);
static_assert(offsetof(ncclTuner_v5_t, getCollInfo) == 16);
static_assert(offsetof(ncclTuner_v5_t, finalize) == 24);
