// NCCL net plugin API version 12.
// NCCL 2.30.3 and later take this version as their newest. Since v11: eight devices in vProps, railId,
// planeId. Source: NCCL 2.30.7, src/include/plugin/net/net_v12.h; our own declarations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/net_device.h"
#include "nccl/profiler_net.h"
#include "nccl/types.h"

struct ncclNetVDeviceProps_v12_t {
  int ndevs;
  int devs[8];
};
static_assert(sizeof(ncclNetVDeviceProps_v12_t) == 36);
static_assert(offsetof(ncclNetVDeviceProps_v12_t, devs) == 4);

struct ncclNetProperties_v12_t {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
  ncclNetVDeviceProps_v12_t vProps;
  size_t maxP2pBytes;
  size_t maxCollBytes;
  int maxMultiRequestSize;
  int16_t railId;
  int16_t planeId;
};
static_assert(sizeof(ncclNetProperties_v12_t) == 128);
static_assert(offsetof(ncclNetProperties_v12_t, name) == 0);
static_assert(offsetof(ncclNetProperties_v12_t, pciPath) == 8);
static_assert(offsetof(ncclNetProperties_v12_t, guid) == 16);
static_assert(offsetof(ncclNetProperties_v12_t, ptrSupport) == 24);
static_assert(offsetof(ncclNetProperties_v12_t, regIsGlobal) == 28);
static_assert(offsetof(ncclNetProperties_v12_t, forceFlush) == 32);
static_assert(offsetof(ncclNetProperties_v12_t, speed) == 36);
static_assert(offsetof(ncclNetProperties_v12_t, port) == 40);
static_assert(offsetof(ncclNetProperties_v12_t, latency) == 44);
static_assert(offsetof(ncclNetProperties_v12_t, maxComms) == 48);
static_assert(offsetof(ncclNetProperties_v12_t, maxRecvs) == 52);
static_assert(offsetof(ncclNetProperties_v12_t, netDeviceType) == 56);
static_assert(offsetof(ncclNetProperties_v12_t, netDeviceVersion) == 60);
static_assert(offsetof(ncclNetProperties_v12_t, vProps) == 64);
static_assert(offsetof(ncclNetProperties_v12_t, maxP2pBytes) == 104);
static_assert(offsetof(ncclNetProperties_v12_t, maxCollBytes) == 112);
static_assert(offsetof(ncclNetProperties_v12_t, maxMultiRequestSize) == 120);
static_assert(offsetof(ncclNetProperties_v12_t, railId) == 124);
static_assert(offsetof(ncclNetProperties_v12_t, planeId) == 126);

struct ncclNet_v12_t {
  const char* name;
  ncclResult_t (*init)(void** ctx, uint64_t commId, ncclNetCommConfig_v12_t* config,
                       ncclDebugLogger_t logFunction, ncclProfilerCallback_t profFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v12_t* props);
  ncclResult_t (*listen)(void* ctx, int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(void* ctx, int dev, void* handle, void** sendComm,
                          ncclNetDeviceHandle_v12_t** sendDevComm);
  ncclResult_t (*accept)(void* listenComm, void** recvComm, ncclNetDeviceHandle_v12_t** recvDevComm);
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
  ncclResult_t (*makeVDevice)(int* d, ncclNetVDeviceProps_v12_t* props);
  ncclResult_t (*finalize)(void* ctx);
  ncclResult_t (*setNetAttr)(void* ctx, ncclNetAttr_v12_t* netAttr);
};
static_assert(sizeof(ncclNet_v12_t) == 176);
static_assert(offsetof(ncclNet_v12_t, name) == 0);
static_assert(offsetof(ncclNet_v12_t, init) == 8);
static_assert(offsetof(ncclNet_v12_t, devices) == 16);
static_assert(offsetof(ncclNet_v12_t, getProperties) == 24);
static_assert(offsetof(ncclNet_v12_t, listen) == 32);
static_assert(offsetof(ncclNet_v12_t, connect) == 40);
static_assert(offsetof(ncclNet_v12_t, accept) == 48);
static_assert(offsetof(ncclNet_v12_t, regMr) == 56);
static_assert(offsetof(ncclNet_v12_t, regMrDmaBuf) == 64);
static_assert(offsetof(ncclNet_v12_t, deregMr) == 72);
static_assert(offsetof(ncclNet_v12_t, isend) == 80);
static_assert(offsetof(ncclNet_v12_t, irecv) == 88);
static_assert(offsetof(ncclNet_v12_t, iflush) == 96);
static_assert(offsetof(ncclNet_v12_t, test) == 104);
static_assert(offsetof(ncclNet_v12_t, closeSend) == 112);
static_assert(offsetof(ncclNet_v12_t, closeRecv) == 120);
static_assert(offsetof(ncclNet_v12_t, closeListen) == 128);
static_assert(offsetof(ncclNet_v12_t, getDeviceMr) == 136);
static_assert(offsetof(ncclNet_v12_t, irecvConsumed) == 144);
static_assert(offsetof(ncclNet_v12_t, makeVDevice) == 152);
static_assert(offsetof(ncclNet_v12_t, finalize) == 160);
static_assert(offsetof(ncclNet_v12_t, setNetAttr) == 168);
