#include "device.h"
#include "errors.h"
#include "graph.h"
#include "stream.h"

namespace softgpu {
namespace {

cudaError_t createStream(cudaStream_t* out, unsigned flags, int priority) {
  if (out == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0)
    return cudaErrorInvalidValue;
  cudaError_t error;
  Device* const device = currentDevice(&error);
  if (device == nullptr) return error;
  const StreamKind kind =
      (flags & cudaStreamNonBlocking) != 0 ? StreamKind::kNonBlocking : StreamKind::kBlocking;
  auto stream = std::make_shared<Stream>(*device, kind, priority);
  device->addStream(stream);
  *out = streams().add(std::move(stream));
  return cudaSuccess;
}

// The stream, if it does not capture: a program may not wait for work that is only written down.
std::shared_ptr<Stream> waitable(cudaStream_t handle, cudaError_t* error) {
  auto stream = resolveStream(handle, error);
  if (stream == nullptr || !capturesUnderWay()) return stream;
  const std::lock_guard lock(captureMutex());
  if (stream->capture.session != nullptr) {
    invalidate(*stream->capture.session);
    *error = cudaErrorStreamCaptureUnsupported;
  } else {
    *error = checkLegacyUse(*stream);
  }
  return *error == cudaSuccess ? stream : nullptr;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return answer(createStream(stream, cudaStreamDefault, 0));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return answer(createStream(stream, flags, 0));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return answer(createStream(stream, flags, priority));
}

// The work that is still in the stream will be done.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const auto stream = streams().remove(handle);
  if (stream == nullptr) return answer(cudaErrorInvalidResourceHandle);
  std::shared_ptr<Graph> dropped;  // without the lock, since it may destroy user objects
  {
    const std::lock_guard lock(captureMutex());
    dropped = leaveCapture(*stream);
  }
  stream->close();
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  cudaError_t error;
  const auto stream = waitable(handle, &error);
  if (stream != nullptr) stream->wait(stream->submitted());
  return answer(error);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  cudaError_t error;
  const auto stream = waitable(handle, &error);
  if (stream != nullptr && !stream->idle()) error = cudaErrorNotReady;
  return answer(error);
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned int* flags) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream != nullptr && flags != nullptr)
    *flags = stream->kind() == StreamKind::kNonBlocking ? cudaStreamNonBlocking : cudaStreamDefault;
  return answer(error);
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream != nullptr && priority != nullptr) *priority = stream->priority();
  return answer(error);
}

#if CUDART_VERSION >= 12000
cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream != nullptr && id != nullptr) *id = stream->id();
  return answer(error);
}
#endif

#if CUDART_VERSION >= 12080
cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream != nullptr && device != nullptr) *device = stream->device().number;
  return answer(error);
}
#endif

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  if (function == nullptr) return answer(cudaErrorInvalidValue);
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return answer(error);
  return answer(submit(*stream, cudaGraphNodeTypeHost, [function, data] { function(data); }));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}
