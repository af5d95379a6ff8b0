// NCCL GIN plugin API version 11.
// NCCL 2.28.7 to 2.29.3 take this version as their newest. The data calls take the collComm: there is one
// context. createContext is for networks that GPUs drive. Source: NCCL 2.29.7,
// src/include/plugin/gin/gin_v11.h; our own declarations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/net_device.h"
#include "nccl/net_v11.h"
#include "nccl/types.h"

struct ncclGin_v11_t {
  const char* name;
  ncclResult_t (*init)(void** ctx, uint64_t commId, ncclDebugLogger_t logFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v11_t* props);
  ncclResult_t (*listen)(void* ctx, int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(void* ctx, void* handles[], int nranks, int rank, void* listenComm,
                          void** collComm);
  ncclResult_t (*createContext)(void* collComm, int nSignals, int nCounters, void** ginCtx,
                                ncclNetDeviceHandle_v11_t** devHandle);
  ncclResult_t (*regMrSym)(void* collComm, void* data, size_t size, int type, uint64_t mrFlags,
                           void** mhandle, void** ginHandle);
  ncclResult_t (*regMrSymDmaBuf)(void* collComm, void* data, size_t size, int type, uint64_t offset, int fd,
                                 uint64_t mrFlags, void** mhandle, void** ginHandle);
  ncclResult_t (*deregMrSym)(void* collComm, void* mhandle);
  ncclResult_t (*destroyContext)(void* ginCtx);
  ncclResult_t (*closeColl)(void* collComm);
  ncclResult_t (*closeListen)(void* listenComm);
  ncclResult_t (*iput)(void* collComm, uint64_t srcOff, void* srcMhandle, size_t size, uint64_t dstOff,
                       void* dstMhandle, uint32_t rank, void** request);
  ncclResult_t (*iputSignal)(void* collComm, uint64_t srcOff, void* srcMhandle, size_t size, uint64_t dstOff,
                             void* dstMhandle, uint32_t rank, uint64_t signalOff, void* signalMhandle,
                             uint64_t signalValue, uint32_t signalOp, void** request);
  ncclResult_t (*test)(void* collComm, void* request, int* done);
  ncclResult_t (*ginProgress)(void* collComm);
  ncclResult_t (*queryLastError)(void* ginCtx, bool* hasError);
  ncclResult_t (*finalize)(void* ctx);
};
static_assert(sizeof(ncclGin_v11_t) == 152);
static_assert(offsetof(ncclGin_v11_t, name) == 0);
static_assert(offsetof(ncclGin_v11_t, init) == 8);
static_assert(offsetof(ncclGin_v11_t, devices) == 16);
static_assert(offsetof(ncclGin_v11_t, getProperties) == 24);
static_assert(offsetof(ncclGin_v11_t, listen) == 32);
static_assert(offsetof(ncclGin_v11_t, connect) == 40);
static_assert(offsetof(ncclGin_v11_t, createContext) == 48);
static_assert(offsetof(ncclGin_v11_t, regMrSym) == 56);
static_assert(offsetof(ncclGin_v11_t, regMrSymDmaBuf) == 64);
static_assert(offsetof(ncclGin_v11_t, deregMrSym) == 72);
static_assert(offsetof(ncclGin_v11_t, destroyContext) == 80);
static_assert(offsetof(ncclGin_v11_t, closeColl) == 88);
static_assert(offsetof(ncclGin_v11_t, closeListen) == 96);
static_assert(offsetof(ncclGin_v11_t, iput) == 104);
static_assert(offsetof(ncclGin_v11_t, iputSignal) == 112);
static_assert(offsetof(ncclGin_v11_t, test) == 120);
static_assert(offsetof(ncclGin_v11_t, ginProgress) == 128);
static_assert(offsetof(ncclGin_v11_t, queryLastError) == 136);
static_assert(offsetof(ncclGin_v11_t, finalize) == 144);
