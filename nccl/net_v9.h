// NCCL net plugin API version 9.
// NCCL 2.24 and 2.25 take this version as their newest. Since v8: forceFlush, vProps, maxP2pBytes,
// maxCollBytes; isend and irecv take size_t; makeVDevice; irecv may carry NCCL_NET_OPTIONAL_RECV_COMPLETION
// in *request on entry. Source: NCCL 2.30.7, src/include/plugin/net/net_v9.h; our own declarations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/net_device.h"
#include "nccl/types.h"

struct ncclNetVDeviceProps_v9_t {
  int ndevs;
  int devs[4];
};
static_assert(sizeof(ncclNetVDeviceProps_v9_t) == 20);
static_assert(offsetof(ncclNetVDeviceProps_v9_t, devs) == 4);

struct ncclNetProperties_v9_t {
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
  ncclNetVDeviceProps_v9_t vProps;
  size_t maxP2pBytes;
  size_t maxCollBytes;
};
static_assert(sizeof(ncclNetProperties_v9_t) == 104);
static_assert(offsetof(ncclNetProperties_v9_t, name) == 0);
static_assert(offsetof(ncclNetProperties_v9_t, pciPath) == 8);
static_assert(offsetof(ncclNetProperties_v9_t, guid) == 16);
static_assert(offsetof(ncclNetProperties_v9_t, ptrSupport) == 24);
static_assert(offsetof(ncclNetProperties_v9_t, regIsGlobal) == 28);
static_assert(offsetof(ncclNetProperties_v9_t, forceFlush) == 32);
static_assert(offsetof(ncclNetProperties_v9_t, speed) == 36);
static_assert(offsetof(ncclNetProperties_v9_t, port) == 40);
static_assert(offsetof(ncclNetProperties_v9_t, latency) == 44);
static_assert(offsetof(ncclNetProperties_v9_t, maxComms) == 48);
static_assert(offsetof(ncclNetProperties_v9_t, maxRecvs) == 52);
static_assert(offsetof(ncclNetProperties_v9_t, netDeviceType) == 56);
static_assert(offsetof(ncclNetProperties_v9_t, netDeviceVersion) == 60);
static_assert(offsetof(ncclNetProperties_v9_t, vProps) == 64);
static_assert(offsetof(ncclNetProperties_v9_t, maxP2pBytes) == 88);
static_assert(offsetof(ncclNetProperties_v9_t, maxCollBytes) == 96);

struct ncclNet_v9_t {
  const char* name;
  ncclResult_t (*init)(ncclDebugLogger_t logFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v9_t* props);
  ncclResult_t (*listen)(int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(int dev, void* handle, void** sendComm, ncclNetDeviceHandle_v9_t** sendDevComm);
  ncclResult_t (*accept)(void* listenComm, void** recvComm, ncclNetDeviceHandle_v9_t** recvDevComm);
  ncclResult_t (*regMr)(void* comm, void* data, size_t size, int type, void** mhandle);
  ncclResult_t (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                              void** mhandle);
  ncclResult_t (*deregMr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* sendComm, void* data, size_t size, int tag, void* mhandle, void** request);
  ncclResult_t (*irecv)(void* recvComm, int n, void** data, size_t* sizes, int* tags, void** mhandles,
                        void** request);
  ncclResult_t (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles, void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*closeSend)(void* sendComm);
  ncclResult_t (*closeRecv)(void* recvComm);
  ncclResult_t (*closeListen)(void* listenComm);
  ncclResult_t (*getDeviceMr)(void* comm, void* mhandle, void** dptr_mhandle);
  ncclResult_t (*irecvConsumed)(void* recvComm, int n, void* request);
  ncclResult_t (*makeVDevice)(int* d, ncclNetVDeviceProps_v9_t* props);
};
static_assert(sizeof(ncclNet_v9_t) == 160);
static_assert(offsetof(ncclNet_v9_t, name) == 0);
static_assert(offsetof(ncclNet_v9_t, init) == 8);
static_assert(offsetof(ncclNet_v9_t, devices) == 16);
static_assert(offsetof(ncclNet_v9_t, getProperties) == 24);
static_assert(offsetof(ncclNet_v9_t, listen) == 32);
static_assert(offsetof(ncclNet_v9_t, connect) == 40);
static_assert(offsetof(ncclNet_v9_t, accept) == 48);
static_assert(offsetof(ncclNet_v9_t, regMr) == 56);
static_assert(offsetof(ncclNet_v9_t, regMrDmaBuf) == 64);
static_assert(offsetof(ncclNet_v9_t, deregMr) == 72);
static_assert(offsetof(ncclNet_v9_t, isend) == 80);
static_assert(offsetof(ncclNet_v9_t, irecv) == 88);
static_assert(offsetof(ncclNet_v9_t, iflush) == 96);
static_assert(offsetof(ncclNet_v9_t, test) == 104);
static_assert(offsetof(ncclNet_v9_t, closeSend) == 112);
static_assert(offsetof(ncclNet_v9_t, closeRecv) == 120);
static_assert(offsetof(ncclNet_v9_t, closeListen) == 128);
static_assert(offsetof(ncclNet_v9_t, getDeviceMr) == 136);
static_assert(offsetof(ncclNet_v9_t, irecvConsumed) == 144);
static_assert(offsetof(ncclNet_v9_t, makeVDevice) == 152);
