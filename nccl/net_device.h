// Device-side networking declarations (v7 and later). Railwise is a host network: netDeviceType is always
// HOST. Source: NCCL 2.30.7, nccl_device/net_device.h.
#pragma once

#include <cstddef>

#define NCCL_NET_DEVICE_INVALID_VERSION 0x0

enum ncclNetDeviceType : int {
  NCCL_NET_DEVICE_HOST = 0,
  NCCL_NET_DEVICE_UNPACK = 1,
  NCCL_NET_DEVICE_GIN_PROXY = 2,
  NCCL_NET_DEVICE_GIN_GDAKI = 3,
  NCCL_NET_DEVICE_GIN_GPI = 4,
};

struct ncclNetDeviceHandle_v7_t {
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
  void* handle;
  std::size_t size;
  int needsProxyProgress;
};
using ncclNetDeviceHandle_v8_t = ncclNetDeviceHandle_v7_t;
using ncclNetDeviceHandle_v9_t = ncclNetDeviceHandle_v8_t;
using ncclNetDeviceHandle_v10_t = ncclNetDeviceHandle_v9_t;
using ncclNetDeviceHandle_v11_t = ncclNetDeviceHandle_v10_t;
using ncclNetDeviceHandle_v12_t = ncclNetDeviceHandle_v11_t;
static_assert(sizeof(ncclNetDeviceHandle_v7_t) == 32);
static_assert(offsetof(ncclNetDeviceHandle_v7_t, netDeviceType) == 0);
static_assert(offsetof(ncclNetDeviceHandle_v7_t, netDeviceVersion) == 4);
static_assert(offsetof(ncclNetDeviceHandle_v7_t, handle) == 8);
static_assert(offsetof(ncclNetDeviceHandle_v7_t, size) == 16);
static_assert(offsetof(ncclNetDeviceHandle_v7_t, needsProxyProgress) == 24);
