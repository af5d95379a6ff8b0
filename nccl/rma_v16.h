// NCCL RMA plugin API version 16.
// RCCL takes this version as its newest, and so does NCCL after 2.31.2. Since v15: getRmaProperties. Source:
// NVIDIA/nccl 14c81c37, src/include/plugin/rma/rma_v16.h; our own declarations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/net_v12.h"
#include "nccl/rma_v15.h"
#include "nccl/types.h"

using ncclRmaConfig_v16_t = ncclRmaConfig_v15_t;

struct ncclRmaProperties_v16_t {
  // Any signal, of any rank, makes visible what all ranks have put and this rank has received, on all NICs.
  bool flushesAllPutsOnAnySignal;
};
static_assert(sizeof(ncclRmaProperties_v16_t) == 1);
static_assert(offsetof(ncclRmaProperties_v16_t, flushesAllPutsOnAnySignal) == 0);

struct ncclRma_v16_t {
  const char* name;
  ncclResult_t (*init)(void** ctx, uint64_t commId, ncclDebugLogger_t logFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getRmaProperties)(void* collComm, ncclRmaProperties_v16_t* rmaProps);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v12_t* props);
  ncclResult_t (*listen)(void* ctx, int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(void* ctx, void* handles[], int nranks, int rank, void* listenComm,
                          void** collComm);
  ncclResult_t (*createContext)(void* collComm, ncclRmaConfig_v16_t* config, void** rmaCtx);
  ncclResult_t (*regMrSym)(void* collComm, void* data, size_t size, int type, uint64_t mrFlags,
                           void** mhandle);
  ncclResult_t (*regMrSymDmaBuf)(void* collComm, void* data, size_t size, int type, uint64_t offset, int fd,
                                 uint64_t mrFlags, void** mhandle);
  ncclResult_t (*deregMrSym)(void* collComm, void* mhandle);
  ncclResult_t (*destroyContext)(void* rmaCtx);
  ncclResult_t (*closeColl)(void* collComm);
  ncclResult_t (*closeListen)(void* listenComm);
  ncclResult_t (*iput)(void* rmaCtx, int context, uint64_t srcOff, void* srcMhandle, size_t size,
                       uint64_t dstOff, void* dstMhandle, uint32_t rank, uint32_t optFlags, void** request);
  ncclResult_t (*iputSignal)(void* rmaCtx, int context, uint64_t srcOff, void* srcMhandle, size_t size,
                             uint64_t dstOff, void* dstMhandle, uint32_t rank, uint64_t signalOff,
                             void* signalMhandle, uint64_t signalValue, uint32_t signalOp,
                             bool isStrongSignal, uint32_t optFlags, void** request);
  ncclResult_t (*iget)(void* rmaCtx, int context, uint64_t remoteOff, void* remoteMhandle, size_t size,
                       uint64_t localOff, void* localMhandle, uint32_t rank, uint32_t optFlags,
                       void** request);
  ncclResult_t (*iflush)(void* rmaCtx, int context, void* mhandle, uint32_t rank, void** request);
  ncclResult_t (*test)(void* collComm, void* request, int* done);
  ncclResult_t (*rmaProgress)(void* rmaCtx);
  ncclResult_t (*queryLastError)(void* rmaCtx, bool* hasError);
  ncclResult_t (*finalize)(void* ctx);
};
static_assert(sizeof(ncclRma_v16_t) == 176);
static_assert(offsetof(ncclRma_v16_t, name) == 0);
static_assert(offsetof(ncclRma_v16_t, init) == 8);
static_assert(offsetof(ncclRma_v16_t, devices) == 16);
static_assert(offsetof(ncclRma_v16_t, getRmaProperties) == 24);
static_assert(offsetof(ncclRma_v16_t, getProperties) == 32);
static_assert(offsetof(ncclRma_v16_t, listen) == 40);
static_assert(offsetof(ncclRma_v16_t, connect) == 48);
static_assert(offsetof(ncclRma_v16_t, createContext) == 56);
static_assert(offsetof(ncclRma_v16_t, regMrSym) == 64);
static_assert(offsetof(ncclRma_v16_t, regMrSymDmaBuf) == 72);
static_assert(offsetof(ncclRma_v16_t, deregMrSym) == 80);
static_assert(offsetof(ncclRma_v16_t, destroyContext) == 88);
static_assert(offsetof(ncclRma_v16_t, closeColl) == 96);
static_assert(offsetof(ncclRma_v16_t, closeListen) == 104);
static_assert(offsetof(ncclRma_v16_t, iput) == 112);
static_assert(offsetof(ncclRma_v16_t, iputSignal) == 120);
static_assert(offsetof(ncclRma_v16_t, iget) == 128);
static_assert(offsetof(ncclRma_v16_t, iflush) == 136);
static_assert(offsetof(ncclRma_v16_t, test) == 144);
static_assert(offsetof(ncclRma_v16_t, rmaProgress) == 152);
static_assert(offsetof(ncclRma_v16_t, queryLastError) == 160);
static_assert(offsetof(ncclRma_v16_t, finalize) == 168);
