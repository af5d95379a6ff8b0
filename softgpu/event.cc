#include "event.h"

#include <utility>

#include "device.h"
#include "errors.h"
#include "graph.h"
#include "stream.h"

namespace softgpu {

std::shared_ptr<Marker> Event::begin() {
  auto marker = std::make_shared<Marker>();
  const std::lock_guard lock(mutex_);
  last_ = marker;
  return marker;
}

std::shared_ptr<Marker> Event::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

HandleTable<cudaEvent_t, Event>& events() {
  static auto& table = *new HandleTable<cudaEvent_t, Event>;
  return table;
}

cudaError_t recordEvent(const std::shared_ptr<Event>& event, Stream& stream, unsigned flags) {
  {
    const std::lock_guard lock(captureMutex());
    if (stream.capture.session != nullptr) {
      if ((flags & cudaEventRecordExternal) != 0)
        return captureEventNode(stream, cudaGraphNodeTypeEventRecord, event);
      if (stream.capture.session->invalidated) return cudaErrorStreamCaptureInvalidated;
      event->captured = stream.capture.session;
      event->captured_tail = stream.capture.tail;
      return cudaSuccess;
    }
    if (const cudaError_t error = checkLegacyUse(stream); error != cudaSuccess) return error;
    event->captured = nullptr;
    event->captured_tail.clear();
  }
  enqueueInOrder(stream, [marker = event->begin()] { marker->finish(); });
  return cudaSuccess;
}

cudaError_t waitEvent(const std::shared_ptr<Event>& event, Stream& stream, unsigned flags) {
  {
    const std::lock_guard lock(captureMutex());
    const bool external = (flags & cudaEventWaitExternal) != 0;
    if (external && stream.capture.session != nullptr)
      return captureEventNode(stream, cudaGraphNodeTypeWaitEvent, event);
    if (!external && event->captured != nullptr)
      return joinCapture(stream, event->captured, event->captured_tail);
    if (stream.capture.session != nullptr) {  // on work that is not captured
      invalidate(*stream.capture.session);
      return cudaErrorStreamCaptureIsolation;
    }
    if (const cudaError_t error = checkLegacyUse(stream); error != cudaSuccess) return error;
  }
  const std::shared_ptr<Marker> marker = event->last();
  if (marker != nullptr && !marker->done()) enqueueInOrder(stream, [marker] { marker->wait(); });
  return cudaSuccess;
}

}  // namespace softgpu

using namespace softgpu;

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming;
  if (event == nullptr) return answer(cudaErrorInvalidValue);
  if ((flags & cudaEventInterprocess) != 0) return answer(notSupported("cudaEventInterprocess"));
  if ((flags & ~kKnown) != 0) return answer(cudaErrorInvalidValue);
  cudaError_t error;
  if (currentDevice(&error) == nullptr) return answer(error);
  *event = events().add(std::make_shared<Event>(flags));
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return answer(events().remove(event) != nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream_handle, unsigned int flags) {
  const auto event = events().find(handle);
  if (event == nullptr) return answer(cudaErrorInvalidResourceHandle);
  cudaError_t error;
  const auto stream = resolveStream(stream_handle, &error);
  return answer(stream != nullptr ? recordEvent(event, *stream, flags) : error);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned int flags) {
  const auto event = events().find(handle);
  if (event == nullptr) return answer(cudaErrorInvalidResourceHandle);
  cudaError_t error;
  const auto stream = resolveStream(stream_handle, &error);
  return answer(stream != nullptr ? waitEvent(event, *stream, flags) : error);
}

namespace {

// The last record of an event that a program looks at; no capture may own the event.
cudaError_t lookAt(cudaEvent_t handle, std::shared_ptr<Event>* event, std::shared_ptr<Marker>* marker) {
  *event = events().find(handle);
  if (*event == nullptr) return cudaErrorInvalidResourceHandle;
  const std::lock_guard lock(captureMutex());
  if ((*event)->captured != nullptr) return cudaErrorCapturedEvent;
  *marker = (*event)->last();
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  std::shared_ptr<Event> event;
  std::shared_ptr<Marker> marker;
  const cudaError_t error = lookAt(handle, &event, &marker);
  if (error != cudaSuccess) return answer(error);
  return answer(marker == nullptr || marker->done() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  std::shared_ptr<Event> event;
  std::shared_ptr<Marker> marker;
  const cudaError_t error = lookAt(handle, &event, &marker);
  if (error == cudaSuccess && marker != nullptr) marker->wait();
  return answer(error);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (milliseconds == nullptr) return answer(cudaErrorInvalidValue);
  std::shared_ptr<Event> events_of[2];
  std::shared_ptr<Marker> markers[2];
  const cudaEvent_t handles[2] = {start, end};
  for (int i = 0; i < 2; ++i) {
    const cudaError_t error = lookAt(handles[i], &events_of[i], &markers[i]);
    if (error != cudaSuccess) return answer(error);
    if (!events_of[i]->timed() || markers[i] == nullptr) return answer(cudaErrorInvalidResourceHandle);
  }
  if (!markers[0]->done() || !markers[1]->done()) return answer(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(markers[1]->at() - markers[0]->at()).count();
  return cudaSuccess;
}
