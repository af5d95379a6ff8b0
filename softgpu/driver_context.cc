// Errors, devices and contexts, as the driver has them. A device has one context, and the thread's current
// device is its current context.
#include "attributes.h"
#include "device.h"
#include "errors.h"

namespace softgpu {

CUresult createContext(CUcontext* context, CUexecAffinityParam*, int, unsigned, CUdevice number) {
  Device* const device = findDevice(number);
  if (device == nullptr || context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = reinterpret_cast<CUcontext>(device);
  return cuCtxSetCurrent(*context);
}

namespace {

Device* fromContext(CUcontext context) {
  for (const auto& device : devices()) {
    if (reinterpret_cast<CUcontext>(device.get()) == context) return device.get();
  }
  return nullptr;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  *text = cudaGetErrorName(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int) { return devices().empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS; }

CUresult cuDriverGetVersion(int* version) { return driverCode(cudaDriverGetVersion(version)); }

CUresult cuDeviceGetCount(int* count) {
  *count = static_cast<int>(devices().size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int number) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (findDevice(number) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *device = number;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) *uuid = properties.uuid;
  return driverCode(error);
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return driverCode(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
}

// A device's one context lives as long as the process.
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice number) {
  Device* const device = findDevice(number);
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *context = reinterpret_cast<CUcontext>(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice number) {
  return findDevice(number) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuCtxDestroy(CUcontext context) {
  return fromContext(context) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  cudaError_t error;
  *context = reinterpret_cast<CUcontext>(currentDevice(&error));
  return driverCode(error);
}

CUresult cuCtxSetCurrent(CUcontext context) {
  const Device* const device = fromContext(context);
  if (device == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  setCurrentDevice(device->number);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = currentDeviceNumber();
  return CUDA_SUCCESS;
}
