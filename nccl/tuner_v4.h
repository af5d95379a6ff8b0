// NCCL tuner plugin API version 4: getCollInfo tells whether the buffers are registered.
// NCCL 2.24 to 2.27 take this version as their newest.
// Source: NCCL 2.30.7, src/include/plugin/tuner/tuner_v4.h; our own declarations.
#pragma once

#include "nccl/tuner_types.h"

struct ncclTuner_v4_t {
  const char* name;
  ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logFunction, void** context);
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collType, size_t nBytes, int numPipeOps,
                              float** collCostTable, int numAlgo, int numProto, int regBuff, int* nChannels);
  ncclResult_t (*destroy)(void* context);
};
static_assert(sizeof(ncclTuner_v4_t) == 32);
static_assert(offsetof(ncclTuner_v4_t, name) == 0);
static_assert(offsetof(ncclTuner_v4_t, init) == 8);
static_assert(offsetof(ncclTuner_v4_t, getCollInfo) == 16);
static_assert(offsetof(ncclTuner_v4_t, destroy) == 24);
