// Events of the data path for NCCL's profiler (include/railwise/profiler.h says what they are). NCCL asks for
// them by a handle with a send or receive; without one an event costs one branch. Called by the thread that
// drives the connection; the callback is NCCL's, which takes calls from any thread.
#pragma once

#include <cstdint>

#include "railwise/profiler.h"

namespace railwise::net::profiler {

using Event = railwise_profiler_event_v1;

// NCCL's ncclProfilerCallback_t without its types; plugin/ asserts that the numbers are NCCL's.
enum Call : int { kStart = 0, kStop = 1, kUpdate = 2, kUpdateAndStop = 3 };
using Callback = int (*)(void** event, int call, void* parent, int64_t id, void* data);

// Where events go from now on; null: nowhere. At init.
void setCallback(Callback callback);

void* report(void* parent, const Event& event);
void reportEnd(void* handle, const Event* update);

// Starts an event below `parent`, the handle that NCCL gave with the request (null: no event). Answers the
// event for stop(); null when nobody wants it.
inline void* start(void* parent, const Event& event) {
  return parent == nullptr ? nullptr : report(parent, event);
}

// Ends it, once, before NCCL hears that the request is done. An event whose request never completes is left
// as it is: by then what NCCL's handle stands for may be gone.
inline void stop(void* handle) {
  if (handle != nullptr) reportEnd(handle, nullptr);
}
// The same with what is known only now.
inline void stop(void* handle, const Event& update) {
  if (handle != nullptr) reportEnd(handle, &update);
}

}  // namespace railwise::net::profiler
