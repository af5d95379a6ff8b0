// Before every file of RCCL: what AMD's build makes of CUDA's names where HIP differs.
#pragma once

#include <hip/hip_runtime.h>

// HIP has no release of CUDA's: RCCL takes AMD's branches.
#undef CUDART_VERSION
#undef CUDA_VERSION
// RCCL defines these for a CUDA that lacks them.
#define CUmemFabricHandle_st rcclMemFabricHandle_st
#define CUmemFabricHandle_v1 rcclMemFabricHandle_v1
#define CUmemFabricHandle rcclMemFabricHandle

#define cudaDeviceProp hipDeviceProp_t
#define cudaGetDeviceProperties hipGetDeviceProperties
#define cudaGraphAddDependencies hipGraphAddDependencies
#define cudaStreamUpdateCaptureDependencies hipStreamUpdateCaptureDependencies
#define CUdeviceptr hipDeviceptr_t
#define CUresult hipError_t
#define cuDeviceGet hipDeviceGet
#undef cuMemGetAddressRange
#define cuMemGetAddressRange hipMemGetAddressRange
#define cuPointerGetAttribute hipPointerGetAttribute
#define requestedHandleType requestedHandleTypes

// What RCCL has on NVIDIA's GPUs only: memory in virtual addresses, multicast, batches of memory operations.
template <typename... Arguments>
hipError_t refuseDriverCall(Arguments...) {
  return cudaErrorNotSupported;
}
#define hipStreamBatchMemOp refuseDriverCall
struct hipStreamBatchMemOpParams {
  struct {
    hipDeviceptr_t address;
    unsigned long long value;
    unsigned flags;
  } waitValue, writeValue;
};
#define cuDeviceGetAttribute refuseDriverCall
#define cuMemAddressFree refuseDriverCall
#define cuMemAddressReserve refuseDriverCall
#define cuMemCreate refuseDriverCall
#define cuMemExportToShareableHandle refuseDriverCall
#define cuMemGetAllocationGranularity refuseDriverCall
#define cuMemGetAllocationPropertiesFromHandle refuseDriverCall
#define cuMemGetHandleForAddressRange refuseDriverCall
#define cuMemImportFromShareableHandle refuseDriverCall
#define cuMemMap refuseDriverCall
#define cuMemRelease refuseDriverCall
#define cuMemRetainAllocationHandle refuseDriverCall
#define cuMemSetAccess refuseDriverCall
#define cuMemUnmap refuseDriverCall
#define cuMulticastAddDevice refuseDriverCall
#define cuMulticastBindAddr refuseDriverCall
#define cuMulticastBindMem refuseDriverCall
#define cuMulticastCreate refuseDriverCall
#define cuMulticastGetGranularity refuseDriverCall
#define cuMulticastUnbind refuseDriverCall
