#include <cstdio>
#include <cstring>
#include <string>

#include "attributes.h"
#include "capture.h"
#include "device.h"
#include "errors.h"

namespace softgpu {
namespace {

// Made up from the PCI address, so that each GPU has one of its own.
void fillUuid(const GpuDescription& gpu, char* bytes) {
  std::memcpy(bytes, "softgpu", 8);
  std::snprintf(bytes + 8, 8, "%02x%02x%02x", gpu.pciDomain() & 0xffU, gpu.pciBus(), gpu.pciSlot());
}

int attributeOf(const Device& device, int attribute) {
  return deviceAttribute(device, attribute).value_or(0);
}

void fillProperties(const Device& device, cudaDeviceProp& properties) {
  const auto is = [&device](cudaDeviceAttr attribute) { return attributeOf(device, attribute); };
  const auto size = [&is](cudaDeviceAttr attribute) { return static_cast<size_t>(is(attribute)); };
  properties = {};
  std::snprintf(properties.name, sizeof properties.name, "%s", device.gpu.name.c_str());
  fillUuid(device.gpu, properties.uuid.bytes);
  properties.totalGlobalMem = device.gpu.memory_bytes;
  properties.sharedMemPerBlock = size(cudaDevAttrMaxSharedMemoryPerBlock);
  properties.regsPerBlock = is(cudaDevAttrMaxRegistersPerBlock);
  properties.warpSize = is(cudaDevAttrWarpSize);
  properties.maxThreadsPerBlock = is(cudaDevAttrMaxThreadsPerBlock);
  properties.maxThreadsDim[0] = is(cudaDevAttrMaxBlockDimX);
  properties.maxThreadsDim[1] = is(cudaDevAttrMaxBlockDimY);
  properties.maxThreadsDim[2] = is(cudaDevAttrMaxBlockDimZ);
  properties.maxGridSize[0] = is(cudaDevAttrMaxGridDimX);
  properties.maxGridSize[1] = is(cudaDevAttrMaxGridDimY);
  properties.maxGridSize[2] = is(cudaDevAttrMaxGridDimZ);
  properties.totalConstMem = size(cudaDevAttrTotalConstantMemory);
  properties.major = is(cudaDevAttrComputeCapabilityMajor);
  properties.minor = is(cudaDevAttrComputeCapabilityMinor);
  properties.multiProcessorCount = is(cudaDevAttrMultiProcessorCount);
  properties.canMapHostMemory = is(cudaDevAttrCanMapHostMemory);
  properties.concurrentKernels = is(cudaDevAttrConcurrentKernels);
  properties.ECCEnabled = is(cudaDevAttrEccEnabled);
  properties.pciBusID = is(cudaDevAttrPciBusId);
  properties.pciDeviceID = is(cudaDevAttrPciDeviceId);
  properties.pciDomainID = is(cudaDevAttrPciDomainId);
  properties.asyncEngineCount = is(cudaDevAttrAsyncEngineCount);
  properties.unifiedAddressing = is(cudaDevAttrUnifiedAddressing);
  properties.memoryBusWidth = is(cudaDevAttrGlobalMemoryBusWidth);
  properties.l2CacheSize = is(cudaDevAttrL2CacheSize);
  properties.maxThreadsPerMultiProcessor = is(cudaDevAttrMaxThreadsPerMultiProcessor);
  properties.streamPrioritiesSupported = is(cudaDevAttrStreamPrioritiesSupported);
  properties.sharedMemPerMultiprocessor = size(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  properties.regsPerMultiprocessor = is(cudaDevAttrMaxRegistersPerMultiprocessor);
  properties.managedMemory = is(cudaDevAttrManagedMemory);
  properties.concurrentManagedAccess = is(cudaDevAttrConcurrentManagedAccess);
  properties.canUseHostPointerForRegisteredMem = is(cudaDevAttrCanUseHostPointerForRegisteredMem);
  properties.cooperativeLaunch = is(cudaDevAttrCooperativeLaunch);
  properties.sharedMemPerBlockOptin = size(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  properties.maxBlocksPerMultiProcessor = is(cudaDevAttrMaxBlocksPerMultiprocessor);
#if CUDART_VERSION >= 12000
  properties.hostRegisterSupported = is(cudaDevAttrHostRegisterSupported);
  properties.memoryPoolsSupported = is(cudaDevAttrMemoryPoolsSupported);
  properties.gpuDirectRDMASupported = is(cudaDevAttrGPUDirectRDMASupported);
  properties.gpuDirectRDMAFlushWritesOptions =
      static_cast<unsigned>(is(cudaDevAttrGPUDirectRDMAFlushWritesOptions));
  properties.gpuDirectRDMAWritesOrdering = is(cudaDevAttrGPUDirectRDMAWritesOrdering);
#endif
}

cudaError_t synchronizeDevice() {
  cudaError_t error;
  Device* const device = currentDevice(&error);
  if (device == nullptr) return error;
  if (error = checkUnsafeCall(); error != cudaSuccess) return error;
  device->synchronize();
  return cudaSuccess;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return answer(cudaErrorInvalidValue);
  *count = static_cast<int>(devices().size());
  return answer(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* number) {
  if (number == nullptr) return answer(cudaErrorInvalidValue);
  cudaError_t error;
  if (currentDevice(&error) == nullptr) return answer(error);
  *number = currentDeviceNumber();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int number) {
  cudaError_t error;
  if (currentDevice(&error) == nullptr) return answer(error);
  if (findDevice(number) == nullptr) return answer(cudaErrorInvalidDevice);
  setCurrentDevice(number);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() { return answer(synchronizeDevice()); }

// Memory stays: a program that resets a device uses none of it any more, and the process is about to end.
cudaError_t cudaDeviceReset() { return answer(synchronizeDevice()); }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int number) {
  if (value == nullptr) return answer(cudaErrorInvalidValue);
  const Device* const device = findDevice(number);
  if (device == nullptr) return answer(cudaErrorInvalidDevice);
  const std::optional<int> known = deviceAttribute(*device, attribute);
  if (!known) return answer(notSupported(("cudaDeviceGetAttribute of " + std::to_string(attribute)).c_str()));
  *value = *known;
  return cudaSuccess;
}

// CUDA 12 may give this name to version 2, which is what its structure belongs to.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  if (properties == nullptr) return answer(cudaErrorInvalidValue);
  const Device* const device = findDevice(number);
  if (device == nullptr) return answer(cudaErrorInvalidDevice);
  fillProperties(*device, *properties);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* out, int bytes, int number) {
  if (out == nullptr || bytes <= 0) return answer(cudaErrorInvalidValue);
  const Device* const device = findDevice(number);
  if (device == nullptr) return answer(cudaErrorInvalidDevice);
  const auto room = static_cast<size_t>(bytes);
  const int wanted = std::snprintf(out, room, "%s", device->gpu.bus_id.c_str());
  return answer(static_cast<size_t>(wanted) < room ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetByPCIBusId(int* number, const char* bus_id) {
  if (number == nullptr || bus_id == nullptr) return answer(cudaErrorInvalidValue);
  const std::string wanted = normalBusId(bus_id);
  for (const auto& device : devices()) {
    if (!wanted.empty() && device->gpu.bus_id == wanted) {
      *number = device->number;
      return cudaSuccess;
    }
  }
  return answer(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int number, int peer) {
  if (can == nullptr) return answer(cudaErrorInvalidValue);
  if (findDevice(number) == nullptr || findDevice(peer) == nullptr) return answer(cudaErrorInvalidDevice);
  *can = number != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  cudaError_t error;
  Device* const device = currentDevice(&error);
  if (device == nullptr) return answer(error);
  if (flags != 0) return answer(cudaErrorInvalidValue);
  if (findDevice(peer) == nullptr || peer == device->number) return answer(cudaErrorInvalidDevice);
  const std::lock_guard lock(device->mutex);
  return answer(device->peers.insert(peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  cudaError_t error;
  Device* const device = currentDevice(&error);
  if (device == nullptr) return answer(error);
  const std::lock_guard lock(device->mutex);
  return answer(device->peers.erase(peer) != 0 ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}

// Limits mean nothing here; a program may set them.
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t) {
  return answer(limit == cudaLimitStackSize ? cudaSuccess : notSupported("cudaDeviceSetLimit of this limit"));
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return answer(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
