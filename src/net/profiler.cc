#include "net/profiler.h"

#include <atomic>

namespace railwise::net::profiler {
namespace {

constexpr int64_t kId = RAILWISE_PROFILER_TYPE | RAILWISE_PROFILER_VERSION;

std::atomic<Callback> g_callback = nullptr;

}  // namespace

void setCallback(Callback callback) { g_callback.store(callback, std::memory_order_release); }

// The transfer does not depend on the answer of NCCL's callback. A profiler that does not want the event
// leaves the handle unchanged; so does NCCL when no profiler is loaded.
void* report(void* parent, const Event& event) {
  const Callback callback = g_callback.load(std::memory_order_acquire);
  if (callback == nullptr) return nullptr;
  void* handle = nullptr;
  Event data = event;  // the profiler gets a pointer without const
  (void)callback(&handle, kStart, parent, kId, &data);
  return handle;
}

void reportEnd(void* handle, const Event* update) {
  const Callback callback = g_callback.load(std::memory_order_acquire);
  if (callback == nullptr) return;
  if (update == nullptr) {
    (void)callback(&handle, kStop, nullptr, kId, nullptr);
    return;
  }
  Event data = *update;
  (void)callback(&handle, kUpdateAndStop, nullptr, kId, &data);
}

}  // namespace railwise::net::profiler
