// NCCL tuner plugin API version 3: a cost table instead of an algorithm and a protocol.
// NCCL 2.22 and 2.23 take this version as their newest.
// Source: NCCL 2.30.7, src/include/plugin/tuner/tuner_v3.h; our own declarations.
#pragma once

#include "nccl/tuner_types.h"

struct ncclTuner_v3_t {
  const char* name;
  ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logFunction, void** context);
  // collCostTable is a float[numAlgo][numProto].
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collType, size_t nBytes, int numPipeOps,
                              float** collCostTable, int numAlgo, int numProto, int* nChannels);
  ncclResult_t (*destroy)(void* context);
};
static_assert(sizeof(ncclTuner_v3_t) == 32);
static_assert(offsetof(ncclTuner_v3_t, name) == 0);
static_assert(offsetof(ncclTuner_v3_t, init) == 8);
static_assert(offsetof(ncclTuner_v3_t, getCollInfo) == 16);
static_assert(offsetof(ncclTuner_v3_t, destroy) == 24);
