// Copies and fills.
#include <cstring>
#include <utility>
#include <vector>

#include "device.h"
#include "errors.h"
#include "graph.h"
#include "memory.h"

namespace softgpu {
namespace {

bool isDeviceMemory(const void* address) {
  const std::optional<Allocation> found = findAllocation(address);
  return found && (found->onDevice() || found->kind == MemoryKind::kManaged);
}

// The direction must be what the pointers are. Memory that both can reach counts as either.
cudaError_t checkDirection(const void* to, const void* from, cudaMemcpyKind kind) {
  const auto known = [](const void* address) { return findAllocation(address).has_value(); };
  switch (kind) {
    case cudaMemcpyHostToHost:
      return isDeviceMemory(to) || isDeviceMemory(from) ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyHostToDevice:
      return known(to) ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemcpyDeviceToHost:
      return known(from) ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemcpyDeviceToDevice:
      return known(to) && known(from) ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemcpyDefault:
      return cudaSuccess;
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
}

// In stream 0; when nothing else is under way, on the calling thread. With `wait` the work is done when the
// call returns. CUDA does not wait for work that concerns device memory only.
cudaError_t doInStreamZero(cudaGraphNodeType type, bool wait, Work work) {
  cudaError_t error = checkUnsafeCall();
  if (error != cudaSuccess) return error;
  const auto stream = resolveStream(nullptr, &error);
  if (stream == nullptr) return error;
  bool idle = !capturesUnderWay() && stream->idle();
  for (const auto& other : stream->device().liveStreams()) {
    if (!idle) break;
    if (other->kind() == StreamKind::kBlocking) idle = other->idle();
  }
  if (idle) {
    work();
    return cudaSuccess;
  }
  error = submit(*stream, type, std::move(work));
  if (error == cudaSuccess && wait) stream->wait(stream->submitted());
  return error;
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, Work* work) {
  if (bytes != 0 && (to == nullptr || from == nullptr)) return cudaErrorInvalidValue;
  *work = [to, from, bytes] { std::memmove(to, from, bytes); };
  return bytes != 0 ? checkDirection(to, from, kind) : cudaSuccess;
}

// CUDA has read or written pageable memory when the call returns. A capture only writes the copy down.
cudaError_t copyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return error;
  Work work;
  error = copy(to, from, bytes, kind, &work);
  if (error != cudaSuccess || bytes == 0) return error;
  const bool capturing = [&] {
    const std::lock_guard lock(captureMutex());
    return stream->capture.session != nullptr;
  }();
  if (!capturing && !findAllocation(from)) {
    const auto* const bytes_from = static_cast<const char*>(from);
    work = [to, staged = std::vector<char>(bytes_from, bytes_from + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    };
  }
  error = submit(*stream, cudaGraphNodeTypeMemcpy, std::move(work));
  if (error == cudaSuccess && !capturing && !findAllocation(to)) stream->wait(stream->submitted());
  return error;
}

cudaError_t fill(void* to, int value, size_t bytes, Work* work) {
  if (bytes != 0 && !findAllocation(to)) return cudaErrorInvalidValue;
  *work = [to, value, bytes] {
    if (bytes != 0) std::memset(to, value, bytes);
  };
  return cudaSuccess;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  Work work;
  const cudaError_t error = copy(to, from, bytes, kind, &work);
  if (error != cudaSuccess || bytes == 0) return answer(error);
  const bool wait = !isDeviceMemory(to) || !isDeviceMemory(from);
  return answer(doInStreamZero(cudaGraphNodeTypeMemcpy, wait, std::move(work)));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return answer(copyAsync(to, from, bytes, kind, stream));
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  if (findDevice(to_device) == nullptr || findDevice(from_device) == nullptr)
    return answer(cudaErrorInvalidDevice);
  return answer(copyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  Work work;
  const cudaError_t error = fill(to, value, bytes, &work);
  return answer(error == cudaSuccess ? doInStreamZero(cudaGraphNodeTypeMemset, false, std::move(work))
                                     : error);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t handle) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return answer(error);
  Work work;
  error = fill(to, value, bytes, &work);
  return answer(error == cudaSuccess ? submit(*stream, cudaGraphNodeTypeMemset, std::move(work)) : error);
}

#if CUDART_VERSION >= 12080
namespace {

cudaError_t copyBatch(void* const* to, const void* const* from, const size_t* sizes, size_t count,
                      size_t* fail_index, cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return cudaErrorInvalidValue;  // as CUDA documents it
  for (size_t i = 0; i < count; ++i) {
    const cudaError_t error = copyAsync(to[i], from[i], sizes[i], cudaMemcpyDefault, handle);
    if (error == cudaSuccess) continue;
    if (fail_index != nullptr) *fail_index = i;
    return error;
  }
  return cudaSuccess;
}

}  // namespace

#if CUDART_VERSION >= 13000
cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* sizes, size_t count,
                                 cudaMemcpyAttributes*, size_t*, size_t, cudaStream_t stream) {
  return answer(copyBatch(to, from, sizes, count, nullptr, stream));
}
#else
cudaError_t cudaMemcpyBatchAsync(void** to, void** from, size_t* sizes, size_t count, cudaMemcpyAttributes*,
                                 size_t*, size_t, size_t* fail_index, cudaStream_t stream) {
  return answer(copyBatch(to, from, sizes, count, fail_index, stream));
}
#endif
#endif
