// The table behind cudaGetDriverEntryPoint. cuda.h turns most names into those of the newest version, whose
// signatures are what NCCL asks for; only cuCtxCreate differs.
#include <cstring>
#include <string>
#include <utility>

#include "api.h"
#include "driver.h"
#include "errors.h"

namespace softgpu {

// In driver_context.cc; the signature of CUDA 11.4, which NCCL asks for.
CUresult createContext(CUcontext* context, CUexecAffinityParam* affinity, int count, unsigned flags,
                       CUdevice device);

namespace {

template <typename Function>
void* pointer(Function* function) {
  return reinterpret_cast<void*>(function);
}

// Multicast is reported as absent (attributes.cc). A program that calls it all the same is told so.
template <typename Function>
struct NoMulticast;
template <typename... Arguments>
struct NoMulticast<CUresult(Arguments...)> {
  static CUresult call(Arguments...) { return driverCode(notSupported("multicast (cuMulticast*)")); }
};

const std::pair<std::string_view, void*> kFunctions[] = {
    {"cuGetErrorString", pointer(&cuGetErrorString)},
    {"cuGetErrorName", pointer(&cuGetErrorName)},
    {"cuDriverGetVersion", pointer(&cuDriverGetVersion)},
    {"cuInit", pointer(&cuInit)},
    {"cuDeviceGet", pointer(&cuDeviceGet)},
    {"cuDeviceGetCount", pointer(&cuDeviceGetCount)},
    {"cuDeviceGetAttribute", pointer(&cuDeviceGetAttribute)},
    {"cuDeviceGetUuid", pointer(&cuDeviceGetUuid)},
    {"cuCtxCreate", pointer(&createContext)},
    {"cuCtxDestroy", pointer(&cuCtxDestroy)},
    {"cuCtxGetCurrent", pointer(&cuCtxGetCurrent)},
    {"cuCtxSetCurrent", pointer(&cuCtxSetCurrent)},
    {"cuCtxGetDevice", pointer(&cuCtxGetDevice)},
    {"cuDevicePrimaryCtxRelease", pointer(&cuDevicePrimaryCtxRelease)},
    {"cuDevicePrimaryCtxRetain", pointer(&cuDevicePrimaryCtxRetain)},
    {"cuLaunchKernel", pointer(&cuLaunchKernel)},
#if CUDA_VERSION >= 11080
    {"cuLaunchKernelEx", pointer(&cuLaunchKernelEx)},
#endif
    {"cuMemGetAddressRange", pointer(&cuMemGetAddressRange)},
    {"cuPointerGetAttribute", pointer(&cuPointerGetAttribute)},
    {"cuMemGetHandleForAddressRange", pointer(&cuMemGetHandleForAddressRange)},
    {"cuMemAddressFree", pointer(&cuMemAddressFree)},
    {"cuMemAddressReserve", pointer(&cuMemAddressReserve)},
    {"cuMemCreate", pointer(&cuMemCreate)},
    {"cuMemExportToShareableHandle", pointer(&cuMemExportToShareableHandle)},
    {"cuMemGetAllocationGranularity", pointer(&cuMemGetAllocationGranularity)},
    {"cuMemGetAllocationPropertiesFromHandle", pointer(&cuMemGetAllocationPropertiesFromHandle)},
    {"cuMemImportFromShareableHandle", pointer(&cuMemImportFromShareableHandle)},
    {"cuMemMap", pointer(&cuMemMap)},
    {"cuMemRelease", pointer(&cuMemRelease)},
    {"cuMemRetainAllocationHandle", pointer(&cuMemRetainAllocationHandle)},
    {"cuMemSetAccess", pointer(&cuMemSetAccess)},
    {"cuMemUnmap", pointer(&cuMemUnmap)},
#if CUDA_VERSION >= 12010
    {"cuMulticastAddDevice", pointer(&NoMulticast<decltype(cuMulticastAddDevice)>::call)},
    {"cuMulticastBindAddr", pointer(&NoMulticast<decltype(cuMulticastBindAddr)>::call)},
    {"cuMulticastBindMem", pointer(&NoMulticast<decltype(cuMulticastBindMem)>::call)},
    {"cuMulticastCreate", pointer(&NoMulticast<decltype(cuMulticastCreate)>::call)},
    {"cuMulticastGetGranularity", pointer(&NoMulticast<decltype(cuMulticastGetGranularity)>::call)},
    {"cuMulticastUnbind", pointer(&NoMulticast<decltype(cuMulticastUnbind)>::call)},
#endif
    {"cuStreamWaitValue32", pointer(&cuStreamWaitValue32)},
    {"cuStreamWaitValue64", pointer(&cuStreamWaitValue64)},
    {"cuStreamWriteValue32", pointer(&cuStreamWriteValue32)},
    {"cuStreamWriteValue64", pointer(&cuStreamWriteValue64)},
    {"cuStreamBatchMemOp", pointer(&cuStreamBatchMemOp)},
};

}  // namespace

void* driverFunction(std::string_view name) {
  for (const auto& [known, function] : kFunctions) {
    if (known == name) return function;
  }
  return nullptr;
}

namespace {

cudaError_t entryPoint(const char* name, void** out) {
  if (name == nullptr || out == nullptr) return cudaErrorInvalidValue;
  *out = driverFunction(name);
  return *out != nullptr ? cudaSuccess : cudaErrorSymbolNotFound;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

#if CUDART_VERSION >= 12000
namespace {

// A name that is not there is no error of the call; the result says it.
cudaError_t entryPoint(const char* name, void** out, cudaDriverEntryPointQueryResult* result) {
  const cudaError_t error = softgpu::entryPoint(name, out);
  if (result != nullptr)
    *result = error == cudaSuccess ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return error == cudaErrorSymbolNotFound ? cudaSuccess : error;
}

}  // namespace

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned int, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  return answer(::entryPoint(name, out, result));
}
#endif

cudaError_t cudaGetDriverEntryPoint(const char* name, void** out, unsigned long long,
                                    cudaDriverEntryPointQueryResult* result) {
  return answer(::entryPoint(name, out, result));
}
#else
cudaError_t cudaGetDriverEntryPoint(const char* name, void** out, unsigned long long) {
  return answer(entryPoint(name, out));
}
#endif
