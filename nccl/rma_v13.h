// NCCL RMA plugin API version 13, which is the GIN plugin API of that version.
// NCCL 2.30.7 takes it where there is no v14. Source: NCCL 2.30.7, src/include/plugin/rma/rma_v13.h and
// src/include/plugin/gin/gin_v13.h; our own declarations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/net_device.h"
#include "nccl/net_v12.h"
#include "nccl/types.h"

struct ncclGinConfig_v13_t {
  int nSignals;
  int nCounters;
  int nContexts;
  int queueDepth;
  int trafficClass;
};
static_assert(sizeof(ncclGinConfig_v13_t) == 20);
static_assert(offsetof(ncclGinConfig_v13_t, nSignals) == 0);
static_assert(offsetof(ncclGinConfig_v13_t, nCounters) == 4);
static_assert(offsetof(ncclGinConfig_v13_t, nContexts) == 8);
static_assert(offsetof(ncclGinConfig_v13_t, queueDepth) == 12);
static_assert(offsetof(ncclGinConfig_v13_t, trafficClass) == 16);

struct ncclRma_v13_t {
  const char* name;
  ncclResult_t (*init)(void** ctx, uint64_t commId, ncclDebugLogger_t logFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v12_t* props);
  ncclResult_t (*listen)(void* ctx, int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(void* ctx, void* handles[], int nranks, int rank, void* listenComm,
                          void** collComm);
  ncclResult_t (*createContext)(void* collComm, ncclGinConfig_v13_t* config, void** ginCtx,
                                ncclNetDeviceHandle_v11_t** devHandle);
  ncclResult_t (*regMrSym)(void* collComm, void* data, size_t size, int type, uint64_t mrFlags,
                           void** mhandle, void** ginHandle);
  ncclResult_t (*regMrSymDmaBuf)(void* collComm, void* data, size_t size, int type, uint64_t offset, int fd,
                                 uint64_t mrFlags, void** mhandle, void** ginHandle);
  ncclResult_t (*deregMrSym)(void* collComm, void* mhandle);
  ncclResult_t (*destroyContext)(void* ginCtx);
  ncclResult_t (*closeColl)(void* collComm);
  ncclResult_t (*closeListen)(void* listenComm);
  ncclResult_t (*iput)(void* ginCtx, int context, uint64_t srcOff, void* srcMhandle, size_t size,
                       uint64_t dstOff, void* dstMhandle, uint32_t rank, void** request);
  ncclResult_t (*iputSignal)(void* ginCtx, int context, uint64_t srcOff, void* srcMhandle, size_t size,
                             uint64_t dstOff, void* dstMhandle, uint32_t rank, uint64_t signalOff,
                             void* signalMhandle, uint64_t signalValue, uint32_t signalOp, void** request);
  ncclResult_t (*iget)(void* ginCtx, int context, uint64_t remoteOff, void* remoteMhandle, size_t size,
                       uint64_t localOff, void* localMhandle, uint32_t rank, void** request);
  ncclResult_t (*iflush)(void* ginCtx, int context, void* mhandle, uint32_t rank, void** request);
  ncclResult_t (*test)(void* collComm, void* request, int* done);
  ncclResult_t (*ginProgress)(void* ginCtx);
  ncclResult_t (*queryLastError)(void* ginCtx, bool* hasError);
  ncclResult_t (*finalize)(void* ctx);
};
static_assert(sizeof(ncclRma_v13_t) == 168);
static_assert(offsetof(ncclRma_v13_t, name) == 0);
static_assert(offsetof(ncclRma_v13_t, init) == 8);
static_assert(offsetof(ncclRma_v13_t, devices) == 16);
static_assert(offsetof(ncclRma_v13_t, getProperties) == 24);
static_assert(offsetof(ncclRma_v13_t, listen) == 32);
static_assert(offsetof(ncclRma_v13_t, connect) == 40);
static_assert(offsetof(ncclRma_v13_t, createContext) == 48);
static_assert(offsetof(ncclRma_v13_t, regMrSym) == 56);
static_assert(offsetof(ncclRma_v13_t, regMrSymDmaBuf) == 64);
static_assert(offsetof(ncclRma_v13_t, deregMrSym) == 72);
static_assert(offsetof(ncclRma_v13_t, destroyContext) == 80);
static_assert(offsetof(ncclRma_v13_t, closeColl) == 88);
static_assert(offsetof(ncclRma_v13_t, closeListen) == 96);
static_assert(offsetof(ncclRma_v13_t, iput) == 104);
static_assert(offsetof(ncclRma_v13_t, iputSignal) == 112);
static_assert(offsetof(ncclRma_v13_t, iget) == 120);
static_assert(offsetof(ncclRma_v13_t, iflush) == 128);
static_assert(offsetof(ncclRma_v13_t, test) == 136);
static_assert(offsetof(ncclRma_v13_t, ginProgress) == 144);
static_assert(offsetof(ncclRma_v13_t, queryLastError) == 152);
static_assert(offsetof(ncclRma_v13_t, finalize) == 160);
