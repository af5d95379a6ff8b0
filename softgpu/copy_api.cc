// Copies and fills.
#include <atomic>
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

template <typename T>
bool copyWord(void* to, const void* from, size_t bytes) {
  const auto aligned = [](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % sizeof(T) == 0;
  };
  if (bytes != sizeof(T) || !aligned(to) || !aligned(from)) return false;
  const T value = std::atomic_ref(*static_cast<T*>(const_cast<void*>(from))).load(std::memory_order_acquire);
  std::atomic_ref(*static_cast<T*>(to)).store(value, std::memory_order_release);
  return true;
}

// A word appears at once, and not before what was copied earlier: it may be a flag that another process waits
// for.
void copyBytes(void* to, const void* from, size_t bytes) {
  if (!copyWord<uint64_t>(to, from, bytes) && !copyWord<uint32_t>(to, from, bytes))
    std::memmove(to, from, bytes);
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
  *work = [to, from, bytes] { copyBytes(to, from, bytes); };
  return bytes != 0 ? checkDirection(to, from, kind) : cudaSuccess;
}

bool isCapturing(Stream& stream) {
  const std::lock_guard lock(captureMutex());
  return stream.capture.session != nullptr;
}

// CUDA has read or written pageable memory when the call returns. A capture only writes the copy down.
cudaError_t copyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return error;
  Work work;
  error = copy(to, from, bytes, kind, &work);
  if (error != cudaSuccess || bytes == 0) return error;
  const bool capturing = isCapturing(*stream);
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

// Copies of a batch, and what the program says of their sources.
struct Batch {
  void* const* to;
  const void* const* from;
  const size_t* bytes;
  size_t count;
  const cudaMemcpyAttributes* attributes;
  const size_t* firsts;  // the first copy that each of the attributes is for
  size_t attribute_count;
};

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  std::vector<char> staged;  // not empty: read during the call, instead of `from`
};

bool valid(const Batch& batch) {
  if (batch.to == nullptr || batch.from == nullptr || batch.bytes == nullptr || batch.count == 0)
    return false;
  if (batch.attributes == nullptr || batch.firsts == nullptr || batch.attribute_count == 0) return false;
  if (batch.firsts[0] != 0) return false;
  for (size_t i = 0; i < batch.attribute_count; ++i) {
    if (batch.firsts[i] >= batch.count || (i != 0 && batch.firsts[i] <= batch.firsts[i - 1])) return false;
    const auto order = batch.attributes[i].srcAccessOrder;
    if (order != cudaMemcpySrcAccessOrderStream && order != cudaMemcpySrcAccessOrderDuringApiCall &&
        order != cudaMemcpySrcAccessOrderAny)
      return false;
  }
  return true;
}

// All copies or, if one is refused, none. The batch is one piece of work in the stream. CUDA promises no
// order inside; the last copy is made first, so that a program that counts on an order is found out.
cudaError_t copyBatch(const Batch& batch, size_t* fail_index, cudaStream_t handle) {
  if (fail_index != nullptr) *fail_index = SIZE_MAX;
  if (handle == nullptr || handle == cudaStreamLegacy || !valid(batch)) return cudaErrorInvalidValue;
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return error;
  if (isCapturing(*stream)) return cudaErrorStreamCaptureUnsupported;
  std::vector<Copy> copies;
  bool wait = false;
  size_t attribute = 0;
  for (size_t i = 0; i < batch.count; ++i) {
    if (attribute + 1 < batch.attribute_count && batch.firsts[attribute + 1] == i) ++attribute;
    Copy one = {batch.to[i], batch.from[i], batch.bytes[i], {}};
    if (one.to == nullptr || one.from == nullptr) {
      if (fail_index != nullptr) *fail_index = i;
      return cudaErrorInvalidValue;
    }
    if (batch.attributes[attribute].srcAccessOrder == cudaMemcpySrcAccessOrderDuringApiCall) {
      const auto* const bytes = static_cast<const char*>(one.from);
      one.staged.assign(bytes, bytes + one.bytes);
    }
    wait = wait || !findAllocation(one.to);
    copies.push_back(std::move(one));
  }
  error = submit(*stream, cudaGraphNodeTypeMemcpy, [copies = std::move(copies)] {
    for (auto one = copies.rbegin(); one != copies.rend(); ++one)
      copyBytes(one->to, one->staged.empty() ? one->from : one->staged.data(), one->bytes);
  });
  if (error == cudaSuccess && wait) stream->wait(stream->submitted());
  return error;
}

}  // namespace

#if CUDART_VERSION >= 13000
cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* sizes, size_t count,
                                 cudaMemcpyAttributes* attributes, size_t* firsts, size_t attribute_count,
                                 cudaStream_t stream) {
  return answer(copyBatch({to, from, sizes, count, attributes, firsts, attribute_count}, nullptr, stream));
}
#else
cudaError_t cudaMemcpyBatchAsync(void** to, void** from, size_t* sizes, size_t count,
                                 cudaMemcpyAttributes* attributes, size_t* firsts, size_t attribute_count,
                                 size_t* fail_index, cudaStream_t stream) {
  return answer(copyBatch({to, from, sizes, count, attributes, firsts, attribute_count}, fail_index, stream));
}
#endif
#endif
