// NCCL RMA plugin API version 15.
// NCCL 2.31.2 takes this version as its newest. Since v14: optFlags of iput, iputSignal and iget. Source:
// NCCL 2.31.2, src/include/plugin/rma/rma_v15.h; our own declarations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/net_v12.h"
#include "nccl/rma_v14.h"
#include "nccl/types.h"

// optFlags: another operation for this rank follows, so the doorbell may wait.
#define NCCL_RMA_OPT_AGGREGATE_REQUESTS 0x1u

using ncclRmaConfig_v15_t = ncclRmaConfig_v14_t;

struct ncclRma_v15_t {
  const char* name;
  ncclResult_t (*init)(void** ctx, uint64_t commId, ncclDebugLogger_t logFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v12_t* props);
  ncclResult_t (*listen)(void* ctx, int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(void* ctx, void* handles[], int nranks, int rank, void* listenComm,
                          void** collComm);
  ncclResult_t (*createContext)(void* collComm, ncclRmaConfig_v15_t* config, void** rmaCtx);
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
static_assert(sizeof(ncclRma_v15_t) == 168);
static_assert(offsetof(ncclRma_v15_t, name) == 0);
static_assert(offsetof(ncclRma_v15_t, init) == 8);
static_assert(offsetof(ncclRma_v15_t, devices) == 16);
static_assert(offsetof(ncclRma_v15_t, getProperties) == 24);
static_assert(offsetof(ncclRma_v15_t, listen) == 32);
static_assert(offsetof(ncclRma_v15_t, connect) == 40);
static_assert(offsetof(ncclRma_v15_t, createContext) == 48);
static_assert(offsetof(ncclRma_v15_t, regMrSym) == 56);
static_assert(offsetof(ncclRma_v15_t, regMrSymDmaBuf) == 64);
static_assert(offsetof(ncclRma_v15_t, deregMrSym) == 72);
static_assert(offsetof(ncclRma_v15_t, destroyContext) == 80);
static_assert(offsetof(ncclRma_v15_t, closeColl) == 88);
static_assert(offsetof(ncclRma_v15_t, closeListen) == 96);
static_assert(offsetof(ncclRma_v15_t, iput) == 104);
static_assert(offsetof(ncclRma_v15_t, iputSignal) == 112);
static_assert(offsetof(ncclRma_v15_t, iget) == 120);
static_assert(offsetof(ncclRma_v15_t, iflush) == 128);
static_assert(offsetof(ncclRma_v15_t, test) == 136);
static_assert(offsetof(ncclRma_v15_t, rmaProgress) == 144);
static_assert(offsetof(ncclRma_v15_t, queryLastError) == 152);
static_assert(offsetof(ncclRma_v15_t, finalize) == 160);
