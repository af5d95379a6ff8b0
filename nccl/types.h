// What every version of the net plugin API shares: limits, pointer kinds, the logger, the communicator hints.
// Source of every value: NCCL 2.30.7, src/include/plugin/nccl_net.h and src/include/nccl_common.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/err.h"

// Bytes of a listen handle; NCCL carries it to the peer through its bootstrap network.
#define NCCL_NET_HANDLE_MAXSIZE 128
// Requests that NCCL may have outstanding on one communicator, times maxRecvs for sends.
#define NCCL_NET_MAX_REQUESTS 32
// Largest maxP2pBytes and maxCollBytes that NCCL accepts.
#define NCCL_MAX_NET_SIZE_BYTES (std::size_t{1} << 40)

#define NCCL_PTR_HOST 0x1
#define NCCL_PTR_CUDA 0x2
#define NCCL_PTR_DMABUF 0x4

// What irecv's *request holds on entry when NCCL does not need to know of the completion (v9 and later).
#define NCCL_NET_OPTIONAL_RECV_COMPLETION 0x1
// "Undefined" in railId and planeId (v12), in ncclNetCommConfig::trafficClass and in ncclNetAttr.
#define NCCL_NET_ID_UNDEF (-1)

enum ncclDebugLogLevel : int {
  NCCL_LOG_NONE = 0,
  NCCL_LOG_VERSION = 1,
  NCCL_LOG_WARN = 2,
  NCCL_LOG_INFO = 3,
  NCCL_LOG_ABORT = 4,
  NCCL_LOG_TRACE = 5,
};

typedef void (*ncclDebugLogger_t)(ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
                                  const char* fmt, ...);

// Per-communicator configuration: connect's argument in v10, init's in v11 and later.
struct ncclNetCommConfig_v10_t {
  int trafficClass;
};
using ncclNetCommConfig_v11_t = ncclNetCommConfig_v10_t;
using ncclNetCommConfig_v12_t = ncclNetCommConfig_v11_t;
static_assert(sizeof(ncclNetCommConfig_v10_t) == 4);

struct ncclNetCommAttr_v11_t {
  int32_t maxConcurrentPeers;
  int32_t minConcurrentPeers;
  int32_t maxFlowsPerPeer;
  int32_t minFlowsPerPeer;
};

// Hints on the traffic to come (v11 and later); op, algo and proto are bit masks.
struct ncclNetAttr_v11_t {
  ncclNetCommAttr_v11_t sendCommAttr;
  ncclNetCommAttr_v11_t recvCommAttr;
  uint32_t op;
  uint32_t algo;
  uint32_t proto;
};
using ncclNetAttr_v12_t = ncclNetAttr_v11_t;
static_assert(sizeof(ncclNetAttr_v11_t) == 44);
static_assert(offsetof(ncclNetAttr_v11_t, sendCommAttr) == 0);
static_assert(offsetof(ncclNetAttr_v11_t, recvCommAttr) == 16);
static_assert(offsetof(ncclNetAttr_v11_t, op) == 32);
static_assert(offsetof(ncclNetAttr_v11_t, algo) == 36);
static_assert(offsetof(ncclNetAttr_v11_t, proto) == 40);
