// NCCL tuner plugin API version 2.
// NCCL 2.21 takes this version as its only one.
// Source: NCCL 2.30.7, src/include/plugin/tuner/tuner_v2.h; our own declarations.
#pragma once

#include "nccl/tuner_types.h"

struct ncclTuner_v2_t {
  const char* name;
  ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logFunction, void** context);
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collType, size_t nBytes, int collNetSupport,
                              int nvlsSupport, int numPipeOps, int* algorithm, int* protocol, int* nChannels);
  ncclResult_t (*destroy)(void* context);
};
static_assert(sizeof(ncclTuner_v2_t) == 32);
static_assert(offsetof(ncclTuner_v2_t, name) == 0);
static_assert(offsetof(ncclTuner_v2_t, init) == 8);
static_assert(offsetof(ncclTuner_v2_t, getCollInfo) == 16);
static_assert(offsetof(ncclTuner_v2_t, destroy) == 24);
