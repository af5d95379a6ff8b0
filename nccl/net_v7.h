// NCCL net plugin API version 7.
// NCCL 2.19 takes this version as its newest. Since v6: netDeviceType, netDeviceVersion; device handles of
// connect and accept; getDeviceMr, irecvConsumed. Source: NCCL 2.30.7, src/include/plugin/net/net_v7.h; our
// own declarations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/net_device.h"
#include "nccl/types.h"

struct ncclNetProperties_v7_t {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
};
static_assert(sizeof(ncclNetProperties_v7_t) == 56);
static_assert(offsetof(ncclNetProperties_v7_t, name) == 0);
static_assert(offsetof(ncclNetProperties_v7_t, pciPath) == 8);
static_assert(offsetof(ncclNetProperties_v7_t, guid) == 16);
static_assert(offsetof(ncclNetProperties_v7_t, ptrSupport) == 24);
static_assert(offsetof(ncclNetProperties_v7_t, speed) == 28);
static_assert(offsetof(ncclNetProperties_v7_t, port) == 32);
static_assert(offsetof(ncclNetProperties_v7_t, latency) == 36);
static_assert(offsetof(ncclNetProperties_v7_t, maxComms) == 40);
static_assert(offsetof(ncclNetProperties_v7_t, maxRecvs) == 44);
static_assert(offsetof(ncclNetProperties_v7_t, netDeviceType) == 48);
static_assert(offsetof(ncclNetProperties_v7_t, netDeviceVersion) == 52);

struct ncclNet_v7_t {
  const char* name;
  ncclResult_t (*init)(ncclDebugLogger_t logFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v7_t* props);
  ncclResult_t (*listen)(int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(int dev, void* handle, void** sendComm, ncclNetDeviceHandle_v7_t** sendDevComm);
  ncclResult_t (*accept)(void* listenComm, void** recvComm, ncclNetDeviceHandle_v7_t** recvDevComm);
  ncclResult_t (*regMr)(void* comm, void* data, int size, int type, void** mhandle);
  ncclResult_t (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                              void** mhandle);
  ncclResult_t (*deregMr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* sendComm, void* data, int size, int tag, void* mhandle, void** request);
  ncclResult_t (*irecv)(void* recvComm, int n, void** data, int* sizes, int* tags, void** mhandles,
                        void** request);
  ncclResult_t (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles, void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*closeSend)(void* sendComm);
  ncclResult_t (*closeRecv)(void* recvComm);
  ncclResult_t (*closeListen)(void* listenComm);
  ncclResult_t (*getDeviceMr)(void* comm, void* mhandle, void** dptr_mhandle);
  ncclResult_t (*irecvConsumed)(void* recvComm, int n, void* request);
};
static_assert(sizeof(ncclNet_v7_t) == 152);
static_assert(offsetof(ncclNet_v7_t, name) == 0);
static_assert(offsetof(ncclNet_v7_t, init) == 8);
static_assert(offsetof(ncclNet_v7_t, devices) == 16);
static_assert(offsetof(ncclNet_v7_t, getProperties) == 24);
static_assert(offsetof(ncclNet_v7_t, listen) == 32);
static_assert(offsetof(ncclNet_v7_t, connect) == 40);
static_assert(offsetof(ncclNet_v7_t, accept) == 48);
static_assert(offsetof(ncclNet_v7_t, regMr) == 56);
static_assert(offsetof(ncclNet_v7_t, regMrDmaBuf) == 64);
static_assert(offsetof(ncclNet_v7_t, deregMr) == 72);
static_assert(offsetof(ncclNet_v7_t, isend) == 80);
static_assert(offsetof(ncclNet_v7_t, irecv) == 88);
static_assert(offsetof(ncclNet_v7_t, iflush) == 96);
static_assert(offsetof(ncclNet_v7_t, test) == 104);
static_assert(offsetof(ncclNet_v7_t, closeSend) == 112);
static_assert(offsetof(ncclNet_v7_t, closeRecv) == 120);
static_assert(offsetof(ncclNet_v7_t, closeListen) == 128);
static_assert(offsetof(ncclNet_v7_t, getDeviceMr) == 136);
static_assert(offsetof(ncclNet_v7_t, irecvConsumed) == 144);
