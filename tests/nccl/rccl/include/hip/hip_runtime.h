// HIP's names that RCCL uses, for CUDA's functions: RCCL runs on the software GPU's CUDA runtime. RCCL's
// sources have CUDA's names for all else.
#pragma once

#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

// HIP's headers bring them along.
#include <dlfcn.h>

#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

#define HIP_VERSION_MAJOR 7
#define HIP_VERSION_MINOR 2
#define HIP_VERSION_PATCH 0
#define HIP_VERSION_GITHASH "software"
#define HIP_VERSION 70200000
#define ROCM_BUILD_INFO "7.2.0"

// In place of include/rccl_float8.h, which wants clang's types.
#define ROCBLAS_FLOAT8_H
using rccl_float8 = __nv_fp8_e4m3;
using rccl_bfloat8 = __nv_fp8_e5m2;
using hip_bfloat16 = __nv_bfloat16;
using __hip_bfloat16 = __nv_bfloat16;

// HIP's driver and runtime have errors of one type. CUDA's have one number for each error that is here.
struct hipError_t {
  cudaError_t value = cudaSuccess;
  hipError_t() = default;
  hipError_t(cudaError_t error) : value(error) {}
  hipError_t(CUresult error) : value(static_cast<cudaError_t>(error)) {}
  operator cudaError_t() const { return value; }
};
constexpr cudaError_t hipSuccess = cudaSuccess;
inline const char* hipGetErrorString(hipError_t error) { return cudaGetErrorString(error); }

using hipEvent_t = cudaEvent_t;
using hipGraph_t = cudaGraph_t;
using hipGraphNode_t = cudaGraphNode_t;
using hipHostNodeParams = cudaHostNodeParams;
using hipFuncAttributes = cudaFuncAttributes;
using hipMemGenericAllocationHandle_t = CUmemGenericAllocationHandle;
using hipStream_t = cudaStream_t;
using hipStreamCaptureStatus = cudaStreamCaptureStatus;
constexpr auto hipStreamCaptureStatusActive = cudaStreamCaptureStatusActive;
constexpr auto hipMemcpyHostToDevice = cudaMemcpyHostToDevice;
constexpr auto hipMemcpyDeviceToHost = cudaMemcpyDeviceToHost;
constexpr auto hipEventDisableTiming = cudaEventDisableTiming;

#define hipGraphAddHostNode cudaGraphAddHostNode
#define hipDeviceCanAccessPeer cudaDeviceCanAccessPeer
#define hipDeviceGetByPCIBusId cudaDeviceGetByPCIBusId
#define hipDeviceSynchronize cudaDeviceSynchronize
#define hipDriverGetVersion cudaDriverGetVersion
#define hipEventCreateWithFlags cudaEventCreateWithFlags
#define hipEventDestroy cudaEventDestroy
#define hipFree cudaFree
#define hipFuncGetAttributes cudaFuncGetAttributes
#define hipGetDevice cudaGetDevice
#define hipMemcpy cudaMemcpy
#define hipMemsetAsync cudaMemsetAsync
#define hipSetDevice cudaSetDevice
#define hipStreamWaitEvent cudaStreamWaitEvent

// ---- the device: an MI300X

struct hipDeviceArch_t {
  unsigned features;
};

struct hipDeviceProp_t : cudaDeviceProp {
  char gcnArchName[256];
  hipDeviceArch_t arch;
};

inline hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device) {
  *properties = {};
  const cudaError_t error = cudaGetDeviceProperties(properties, device);
  std::strcpy(properties->gcnArchName, "gfx942:sramecc+:xnack-");
  properties->major = 9;
  properties->minor = 4;
  return error;
}

enum hipDeviceAttribute_t {
  hipDeviceAttributeWarpSize,
  hipDeviceAttributeHdpMemFlushCntl,
  hipDeviceAttributeDirectManagedMemAccessFromHost,
};

inline hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int) {
  *value = attribute == hipDeviceAttributeWarpSize ? 64 : 0;
  return cudaSuccess;
}

inline hipError_t hipDeviceGet(CUdevice* number, int device) {
  *number = device;
  return cudaSuccess;
}

inline hipError_t hipRuntimeGetVersion(int* version) {
  *version = HIP_VERSION;
  return cudaSuccess;
}

// ---- memory: kinds that differ only for a GPU's caches

enum {
  hipDeviceMallocDefault = 0,
  hipDeviceMallocFinegrained = 1,
  hipDeviceMallocUncached = 3,
  hipDeviceMallocContiguous = 4,
  hipHostMallocUncached = 0,
  hipExtHostRegisterUncached = 0,
};

inline hipError_t hipExtMallocWithFlags(void** memory, size_t bytes, unsigned) {
  return cudaMalloc(memory, bytes);
}

template <typename T>
hipError_t hipHostMalloc(T** memory, size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(memory), bytes, flags);
}

using hipDeviceptr_t = void*;
hipError_t hipMemGetAddressRange(hipDeviceptr_t* begin, size_t* bytes,
                                 hipDeviceptr_t pointer);  // ../../amd.cc

constexpr auto HIP_POINTER_ATTRIBUTE_IS_MANAGED = CU_POINTER_ATTRIBUTE_IS_MANAGED;

inline hipError_t hipPointerGetAttribute(void* value, CUpointer_attribute attribute, hipDeviceptr_t pointer) {
  if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED) {
    *static_cast<bool*>(value) = false;
    return cudaSuccess;
  }
  if (attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) {
    *static_cast<int*>(value) = 1;
    return cudaSuccess;
  }
  if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) return cudaErrorNotSupported;
  cudaPointerAttributes attributes;
  const cudaError_t error = cudaPointerGetAttributes(&attributes, pointer);
  *static_cast<int*>(value) = attributes.device;
  return error;
}

// ---- streams and graphs, whose edges have no data in HIP

inline hipError_t hipGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                          const cudaGraphNode_t* to, size_t count) {
  return cudaGraphAddDependencies(graph, from, to, nullptr, count);
}

inline hipError_t hipStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                     size_t count, unsigned flags) {
  return cudaStreamUpdateCaptureDependencies(stream, nodes, nullptr, count, flags);
}

inline hipError_t hipExtLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                     size_t shared_bytes, hipStream_t stream, hipEvent_t start,
                                     hipEvent_t stop, int) {
  cudaError_t error = start == nullptr ? cudaSuccess : cudaEventRecord(start, stream);
  if (error == cudaSuccess) error = cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
  if (error == cudaSuccess && stop != nullptr) error = cudaEventRecord(stop, stream);
  return error;
}

inline hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus* status,
                                             unsigned long long* id = nullptr, hipGraph_t* graph = nullptr,
                                             const hipGraphNode_t** nodes = nullptr,
                                             size_t* count = nullptr) {
  return cudaStreamGetCaptureInfo(stream, status, id, graph, nodes, nullptr, count);
}
