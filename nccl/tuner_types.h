// What every version of the tuner plugin API shares.
// Source of every value: NCCL 2.30.7, src/include/nccl_common.h and src/include/plugin/nccl_tuner.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/err.h"
#include "nccl/types.h"

// The collectives for which NCCL asks a tuner.
enum ncclFunc_t : int {
  ncclFuncBroadcast = 0,
  ncclFuncReduce = 1,
  ncclFuncAllGather = 2,
  ncclFuncReduceScatter = 3,
  ncclFuncAllReduce = 4,
};

#define NCCL_ALGO_TREE 0
#define NCCL_ALGO_RING 1
#define NCCL_ALGO_COLLNET_DIRECT 2
#define NCCL_ALGO_COLLNET_CHAIN 3
#define NCCL_ALGO_NVLS 4
#define NCCL_ALGO_NVLS_TREE 5
#define NCCL_ALGO_PAT 6

#define NCCL_PROTO_LL 0
#define NCCL_PROTO_LL128 1
#define NCCL_PROTO_SIMPLE 2

// In a cost table (v3 and later): NCCL cannot take this algorithm with this protocol.
#define NCCL_ALGO_PROTO_IGNORE (-1.0F)
