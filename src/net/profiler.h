// Events of the data path for NCCL's profiler (include/railwise/profiler.h describes them). NCCL requests
// events by passing a handle with a send or receive. Without a handle an event costs one branch. The thread
// that drives the connection calls these functions. They call NCCL's callback, which takes calls from any
// thread.
#pragma once

#include <cstdint>

#include "railwise/profiler.h"

namespace railwise::net::profiler {

using Event = railwise_profiler_event_v1;

// NCCL's ncclProfilerCallback_t without its types. plugin/ asserts that the numbers are NCCL's.
enum Call : int { kStart = 0, kStop = 1, kUpdate = 2, kUpdateAndStop = 3 };
using Callback = int (*)(void** event, int call, void* parent, int64_t id, void* data);

// Sets the callback that receives all events from now on; null: events are dropped. Called at init.
void setCallback(Callback callback);

void* report(void* parent, const Event& event);
void reportEnd(void* handle, const Event* update);

// Starts an event below `parent`, the handle that NCCL gave with the request (null: no event). Returns the
// event for stop(); null if no profiler wants it.
inline void* start(void* parent, const Event& event) {
  return parent == nullptr ? nullptr : report(parent, event);
}

// Ends an event. Call it once, before NCCL learns that the request is done. An event whose request never
// completes is never ended, because NCCL's handle may be invalid by then.
inline void stop(void* handle) {
  if (handle != nullptr) reportEnd(handle, nullptr);
}
// Ends an event and passes values that are known only now.
inline void stop(void* handle, const Event& update) {
  if (handle != nullptr) reportEnd(handle, &update);
}

}  // namespace railwise::net::profiler
