// Allocations of a program.
#include <string>

#include "capture.h"
#include "device.h"
#include "errors.h"
#include "memory.h"

namespace softgpu {
namespace {

cudaError_t allocateOnDevice(void** out, size_t bytes, MemoryKind kind) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = nullptr;
  cudaError_t error;
  Device* const device = currentDevice(&error);
  if (device == nullptr) return error;
  if (bytes == 0) return cudaSuccess;
  const size_t mapped = wholePages(bytes);
  if (mapped < bytes || !device->takeMemory(mapped)) return cudaErrorMemoryAllocation;
  *out = allocateShared(bytes, kind, device->number);
  if (*out != nullptr) return cudaSuccess;
  device->used_bytes -= mapped;
  return cudaErrorMemoryAllocation;
}

void release(const Allocation& allocation) {
  if (Device* const device = findDevice(allocation.device); device != nullptr)
    device->used_bytes -= allocation.mapped_bytes;
  releaseMapping(allocation);
}

bool isOwn(const Allocation& allocation) {
  return allocation.kind == MemoryKind::kDevice || allocation.kind == MemoryKind::kManaged;
}

// As CUDA does, waits for the device: work that is under way may use the memory.
cudaError_t freeAfterWork(void* address, bool (*accept)(const Allocation&)) {
  if (address == nullptr) return cudaSuccess;
  cudaError_t error = checkUnsafeCall();
  if (error != cudaSuccess) return error;
  Device* const current = currentDevice(&error);
  if (current == nullptr) return error;
  const std::optional<Allocation> found = findAllocation(address);
  if (!found || found->begin != reinterpret_cast<uintptr_t>(address) || !accept(*found))
    return cudaErrorInvalidValue;
  if (Device* const device = findDevice(found->device); device != nullptr) device->synchronize();
  const std::optional<Allocation> taken = takeAllocation(address, accept);
  if (!taken) return cudaErrorInvalidValue;
  if (taken->kind == MemoryKind::kPinned) {
    releaseMapping(*taken);
  } else {
    release(*taken);
  }
  return cudaSuccess;
}

cudaError_t allocateOnHost(void** out, size_t bytes) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = nullptr;
  cudaError_t error = checkUnsafeCall();
  if (error != cudaSuccess) return error;
  Device* const device = currentDevice(&error);
  if (device == nullptr || bytes == 0) return error;
  *out = allocatePinned(bytes, device->number);
  return *out != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

// The memory is there at once: the program can only use it in stream order anyway.
cudaError_t allocateInStream(void** out, size_t bytes, cudaStream_t handle, const char* name) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return error;
  {
    const std::lock_guard lock(captureMutex());
    if (stream->capture.session != nullptr)
      return notSupported((std::string(name) + " in a capture").c_str());
  }
  return allocateOnDevice(out, bytes, MemoryKind::kDevice);
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

cudaError_t cudaMalloc(void** out, size_t bytes) {
  const cudaError_t error = checkUnsafeCall();
  return answer(error == cudaSuccess ? allocateOnDevice(out, bytes, MemoryKind::kDevice) : error);
}

cudaError_t cudaMallocManaged(void** out, size_t bytes, unsigned int flags) {
  if (bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
    return answer(cudaErrorInvalidValue);
  const cudaError_t error = checkUnsafeCall();
  return answer(error == cudaSuccess ? allocateOnDevice(out, bytes, MemoryKind::kManaged) : error);
}

cudaError_t cudaFree(void* address) { return answer(freeAfterWork(address, isOwn)); }

cudaError_t cudaMallocAsync(void** out, size_t bytes, cudaStream_t stream) {
  return answer(allocateInStream(out, bytes, stream, "cudaMallocAsync"));
}

cudaError_t cudaMallocFromPoolAsync(void** out, size_t bytes, cudaMemPool_t, cudaStream_t stream) {
  return answer(allocateInStream(out, bytes, stream, "cudaMallocFromPoolAsync"));
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return answer(error);
  {
    const std::lock_guard lock(captureMutex());
    if (stream->capture.session != nullptr) return answer(notSupported("cudaFreeAsync in a capture"));
  }
  const std::optional<Allocation> taken = takeAllocation(address, isOwn);
  if (!taken) return answer(cudaErrorInvalidValue);
  enqueueInOrder(*stream, [allocation = *taken] { release(allocation); });
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned int) {
  return answer(allocateOnHost(out, bytes));
}
cudaError_t cudaMallocHost(void** out, size_t bytes) { return answer(allocateOnHost(out, bytes)); }

cudaError_t cudaFreeHost(void* address) {
  return answer(freeAfterWork(
      address, [](const Allocation& allocation) { return allocation.kind == MemoryKind::kPinned; }));
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned int) {
  if (address == nullptr || bytes == 0) return answer(cudaErrorInvalidValue);
  cudaError_t error = checkUnsafeCall();
  if (error != cudaSuccess) return answer(error);
  Device* const device = currentDevice(&error);
  if (device == nullptr) return answer(error);
  const bool added = addMapping({.begin = reinterpret_cast<uintptr_t>(address),
                                 .bytes = bytes,
                                 .kind = MemoryKind::kRegistered,
                                 .device = device->number});
  return answer(added ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void* address) {
  const auto taken = takeAllocation(
      address, [](const Allocation& allocation) { return allocation.kind == MemoryKind::kRegistered; });
  return answer(taken ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

// Host and device share one address space.
cudaError_t cudaHostGetDevicePointer(void** out, void* address, unsigned int flags) {
  if (out == nullptr || flags != 0) return answer(cudaErrorInvalidValue);
  const std::optional<Allocation> found = findAllocation(address);
  if (!found || found->onDevice()) return answer(cudaErrorInvalidValue);
  *out = address;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  cudaError_t error;
  const Device* const device = currentDevice(&error);
  if (device == nullptr) return answer(error);
  if (total_bytes != nullptr) *total_bytes = device->gpu.memory_bytes;
  if (free_bytes != nullptr) *free_bytes = device->gpu.memory_bytes - device->used_bytes;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  if (attributes == nullptr) return answer(cudaErrorInvalidValue);
  *attributes = {};
  const std::optional<Allocation> found = findAllocation(address);
  void* const pointer = const_cast<void*>(address);
  if (!found) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = pointer;
    return cudaSuccess;
  }
  attributes->device = found->device;
  attributes->devicePointer = pointer;
  attributes->type = cudaMemoryTypeHost;
  if (found->onDevice()) attributes->type = cudaMemoryTypeDevice;
  if (found->kind == MemoryKind::kManaged) attributes->type = cudaMemoryTypeManaged;
  if (!found->onDevice()) attributes->hostPointer = pointer;
  return cudaSuccess;
}
