// NCCL tuner plugin API version 6: an optional function for the chunk size.
// NCCL 2.30 and 2.31 take this version as their newest.
// Source: NCCL 2.30.7, src/include/plugin/tuner/tuner_v6.h; our own declarations.
#pragma once

#include "nccl/tuner_v5.h"

using ncclNvlDomainInfo_v6_t = ncclNvlDomainInfo_v5_t;
using ncclTunerConstants_v6_t = ncclTunerConstants_v5_t;

struct ncclTuner_v6_t {
  const char* name;
  ncclResult_t (*init)(void** context, uint64_t commId, size_t nRanks, size_t nNodes,
                       ncclDebugLogger_t logFunction, ncclNvlDomainInfo_v6_t* nvlDomainInfo,
                       ncclTunerConstants_v6_t* constants);
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collType, size_t nBytes, int numPipeOps,
                              float** collCostTable, int numAlgo, int numProto, int regBuff, int* nChannels);
  ncclResult_t (*finalize)(void* context);
  // May be null: NCCL's own chunk size stays.
  ncclResult_t (*getChunkSize)(void* context, ncclFunc_t collType, size_t nBytes, int algo, int proto,
                               int nChannels, size_t* chunkSize);
};
static_assert(sizeof(ncclTuner_v6_t) == 40);
static_assert(offsetof(ncclTuner_v6_t, name) == 0);
static_assert(offsetof(ncclTuner_v6_t, init) == 8);
static_assert(offsetof(ncclTuner_v6_t, getCollInfo) == 16);
static_assert(offsetof(ncclTuner_v6_t, finalize) == 24);
static_assert(offsetof(ncclTuner_v6_t, getChunkSize) == 32);
