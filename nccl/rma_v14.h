// NCCL RMA plugin API version 14.
// NCCL 2.30.7 takes this version as its newest. Since v13: a config of its own, signals that need not be
// strong, no handles for GPUs. Source: NCCL 2.30.7, src/include/plugin/rma/rma_v14.h; our own declarations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/net_v12.h"
#include "nccl/types.h"

// signalOp of iputSignal, and mrFlags of regMrSym. Source: NCCL 2.30.7, src/include/plugin/nccl_net.h.
#define NCCL_NET_SIGNAL_OP_INC 0x1
#define NCCL_NET_SIGNAL_OP_ADD 0x2
#define NCCL_NET_MR_FLAG_FORCE_SO 0x1
#define NCCL_NET_MR_FLAG_SIGNAL_NEVER_RESET 0x2

struct ncclRmaConfig_v14_t {
  int nContexts;
  int trafficClass;
  int rankStride;
};
static_assert(sizeof(ncclRmaConfig_v14_t) == 12);
static_assert(offsetof(ncclRmaConfig_v14_t, nContexts) == 0);
static_assert(offsetof(ncclRmaConfig_v14_t, trafficClass) == 4);
static_assert(offsetof(ncclRmaConfig_v14_t, rankStride) == 8);

struct ncclRma_v14_t {
  const char* name;
  ncclResult_t (*init)(void** ctx, uint64_t commId, ncclDebugLogger_t logFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v12_t* props);
  ncclResult_t (*listen)(void* ctx, int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(void* ctx, void* handles[], int nranks, int rank, void* listenComm,
                          void** collComm);
  ncclResult_t (*createContext)(void* collComm, ncclRmaConfig_v14_t* config, void** rmaCtx);
  ncclResult_t (*regMrSym)(void* collComm, void* data, size_t size, int type, uint64_t mrFlags,
                           void** mhandle);
  ncclResult_t (*regMrSymDmaBuf)(void* collComm, void* data, size_t size, int type, uint64_t offset, int fd,
                                 uint64_t mrFlags, void** mhandle);
  ncclResult_t (*deregMrSym)(void* collComm, void* mhandle);
  ncclResult_t (*destroyContext)(void* rmaCtx);
  ncclResult_t (*closeColl)(void* collComm);
  ncclResult_t (*closeListen)(void* listenComm);
  ncclResult_t (*iput)(void* rmaCtx, int context, uint64_t srcOff, void* srcMhandle, size_t size,
                       uint64_t dstOff, void* dstMhandle, uint32_t rank, void** request);
  ncclResult_t (*iputSignal)(void* rmaCtx, int context, uint64_t srcOff, void* srcMhandle, size_t size,
                             uint64_t dstOff, void* dstMhandle, uint32_t rank, uint64_t signalOff,
                             void* signalMhandle, uint64_t signalValue, uint32_t signalOp,
                             bool isStrongSignal, void** request);
  ncclResult_t (*iget)(void* rmaCtx, int context, uint64_t remoteOff, void* remoteMhandle, size_t size,
                       uint64_t localOff, void* localMhandle, uint32_t rank, void** request);
  ncclResult_t (*iflush)(void* rmaCtx, int context, void* mhandle, uint32_t rank, void** request);
  ncclResult_t (*test)(void* collComm, void* request, int* done);
  ncclResult_t (*rmaProgress)(void* rmaCtx);
  ncclResult_t (*queryLastError)(void* rmaCtx, bool* hasError);
  ncclResult_t (*finalize)(void* ctx);
};
static_assert(sizeof(ncclRma_v14_t) == 168);
static_assert(offsetof(ncclRma_v14_t, name) == 0);
static_assert(offsetof(ncclRma_v14_t, init) == 8);
static_assert(offsetof(ncclRma_v14_t, devices) == 16);
static_assert(offsetof(ncclRma_v14_t, getProperties) == 24);
static_assert(offsetof(ncclRma_v14_t, listen) == 32);
static_assert(offsetof(ncclRma_v14_t, connect) == 40);
static_assert(offsetof(ncclRma_v14_t, createContext) == 48);
static_assert(offsetof(ncclRma_v14_t, regMrSym) == 56);
static_assert(offsetof(ncclRma_v14_t, regMrSymDmaBuf) == 64);
static_assert(offsetof(ncclRma_v14_t, deregMrSym) == 72);
static_assert(offsetof(ncclRma_v14_t, destroyContext) == 80);
static_assert(offsetof(ncclRma_v14_t, closeColl) == 88);
static_assert(offsetof(ncclRma_v14_t, closeListen) == 96);
static_assert(offsetof(ncclRma_v14_t, iput) == 104);
static_assert(offsetof(ncclRma_v14_t, iputSignal) == 112);
static_assert(offsetof(ncclRma_v14_t, iget) == 120);
static_assert(offsetof(ncclRma_v14_t, iflush) == 128);
static_assert(offsetof(ncclRma_v14_t, test) == 136);
static_assert(offsetof(ncclRma_v14_t, rmaProgress) == 144);
static_assert(offsetof(ncclRma_v14_t, queryLastError) == 152);
static_assert(offsetof(ncclRma_v14_t, finalize) == 160);
