// The callback with which a network plugin reports its own events to NCCL's profiler (v10 and later).
// Source: NCCL 2.30.7, src/include/nccl_common.h. Never call it with a null pHandle: NCCL dereferences it on
// Start.
#pragma once

#include <cstdint>

#include "nccl/err.h"

enum {
  ncclProfilerNetEventStart = 0,
  ncclProfilerNetEventStop = 1,
  ncclProfilerNetEventUpdate = 2,
  ncclProfilerNetEventUpdateAndStop = 3,
};

typedef ncclResult_t (*ncclProfilerCallback_t)(void** eHandle, int type, void* pHandle, int64_t pluginId,
                                               void* extData);
