// NCCL net plugin API version 6.
// NCCL 2.13.4 to 2.18 take this version as their newest.
// Source: NCCL 2.30.7, src/include/plugin/net/net_v6.h; our own declarations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/types.h"

struct ncclNetProperties_v6_t {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
};
static_assert(sizeof(ncclNetProperties_v6_t) == 48);
static_assert(offsetof(ncclNetProperties_v6_t, name) == 0);
static_assert(offsetof(ncclNetProperties_v6_t, pciPath) == 8);
static_assert(offsetof(ncclNetProperties_v6_t, guid) == 16);
static_assert(offsetof(ncclNetProperties_v6_t, ptrSupport) == 24);
static_assert(offsetof(ncclNetProperties_v6_t, speed) == 28);
static_assert(offsetof(ncclNetProperties_v6_t, port) == 32);
static_assert(offsetof(ncclNetProperties_v6_t, latency) == 36);
static_assert(offsetof(ncclNetProperties_v6_t, maxComms) == 40);
static_assert(offsetof(ncclNetProperties_v6_t, maxRecvs) == 44);

struct ncclNet_v6_t {
  const char* name;
  ncclResult_t (*init)(ncclDebugLogger_t logFunction);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v6_t* props);
  ncclResult_t (*listen)(int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(int dev, void* handle, void** sendComm);
  ncclResult_t (*accept)(void* listenComm, void** recvComm);
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
};
static_assert(sizeof(ncclNet_v6_t) == 136);
static_assert(offsetof(ncclNet_v6_t, name) == 0);
static_assert(offsetof(ncclNet_v6_t, init) == 8);
static_assert(offsetof(ncclNet_v6_t, devices) == 16);
static_assert(offsetof(ncclNet_v6_t, getProperties) == 24);
static_assert(offsetof(ncclNet_v6_t, listen) == 32);
static_assert(offsetof(ncclNet_v6_t, connect) == 40);
static_assert(offsetof(ncclNet_v6_t, accept) == 48);
static_assert(offsetof(ncclNet_v6_t, regMr) == 56);
static_assert(offsetof(ncclNet_v6_t, regMrDmaBuf) == 64);
static_assert(offsetof(ncclNet_v6_t, deregMr) == 72);
static_assert(offsetof(ncclNet_v6_t, isend) == 80);
static_assert(offsetof(ncclNet_v6_t, irecv) == 88);
static_assert(offsetof(ncclNet_v6_t, iflush) == 96);
static_assert(offsetof(ncclNet_v6_t, test) == 104);
static_assert(offsetof(ncclNet_v6_t, closeSend) == 112);
static_assert(offsetof(ncclNet_v6_t, closeRecv) == 120);
static_assert(offsetof(ncclNet_v6_t, closeListen) == 128);
