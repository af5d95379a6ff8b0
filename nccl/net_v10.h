// NCCL net plugin API version 10.
// NCCL 2.26 and 2.27 take this version as their newest. Since v9: a profiler callback in init, a config in
// connect, profiler handles in isend and irecv. Source: NCCL 2.30.7, src/include/plugin/net/net_v10.h; our
// own declarations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/net_device.h"
#include "nccl/net_v9.h"
#include "nccl/profiler_net.h"
#include "nccl/types.h"

using ncclNetVDeviceProps_v10_t = ncclNetVDeviceProps_v9_t;
using ncclNetProperties_v10_t = ncclNetProperties_v9_t;

struct ncclNet_v10_t {
  const char* name;
  ncclResult_t (*init)(ncclDebugLogger_t logFunction, ncclProfilerCallback_t profFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v10_t* props);
  ncclResult_t (*listen)(int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(int dev, ncclNetCommConfig_v10_t* config, void* handle, void** sendComm,
                          ncclNetDeviceHandle_v10_t** sendDevComm);
  ncclResult_t (*accept)(void* listenComm, void** recvComm, ncclNetDeviceHandle_v10_t** recvDevComm);
  ncclResult_t (*regMr)(void* comm, void* data, size_t size, int type, void** mhandle);
  ncclResult_t (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                              void** mhandle);
  ncclResult_t (*deregMr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* sendComm, void* data, size_t size, int tag, void* mhandle, void* phandle,
                        void** request);
  ncclResult_t (*irecv)(void* recvComm, int n, void** data, size_t* sizes, int* tags, void** mhandles,
                        void** phandles, void** request);
  ncclResult_t (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles, void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*closeSend)(void* sendComm);
  ncclResult_t (*closeRecv)(void* recvComm);
  ncclResult_t (*closeListen)(void* listenComm);
  ncclResult_t (*getDeviceMr)(void* comm, void* mhandle, void** dptr_mhandle);
  ncclResult_t (*irecvConsumed)(void* recvComm, int n, void* request);
  ncclResult_t (*makeVDevice)(int* d, ncclNetVDeviceProps_v10_t* props);
};
static_assert(sizeof(ncclNet_v10_t) == 160);
static_assert(offsetof(ncclNet_v10_t, name) == 0);
static_assert(offsetof(ncclNet_v10_t, init) == 8);
static_assert(offsetof(ncclNet_v10_t, devices) == 16);
static_assert(offsetof(ncclNet_v10_t, getProperties) == 24);
static_assert(offsetof(ncclNet_v10_t, listen) == 32);
static_assert(offsetof(ncclNet_v10_t, connect) == 40);
static_assert(offsetof(ncclNet_v10_t, accept) == 48);
static_assert(offsetof(ncclNet_v10_t, regMr) == 56);
static_assert(offsetof(ncclNet_v10_t, regMrDmaBuf) == 64);
static_assert(offsetof(ncclNet_v10_t, deregMr) == 72);
static_assert(offsetof(ncclNet_v10_t, isend) == 80);
static_assert(offsetof(ncclNet_v10_t, irecv) == 88);
static_assert(offsetof(ncclNet_v10_t, iflush) == 96);
static_assert(offsetof(ncclNet_v10_t, test) == 104);
static_assert(offsetof(ncclNet_v10_t, closeSend) == 112);
static_assert(offsetof(ncclNet_v10_t, closeRecv) == 120);
static_assert(offsetof(ncclNet_v10_t, closeListen) == 128);
static_assert(offsetof(ncclNet_v10_t, getDeviceMr) == 136);
static_assert(offsetof(ncclNet_v10_t, irecvConsumed) == 144);
static_assert(offsetof(ncclNet_v10_t, makeVDevice) == 152);
