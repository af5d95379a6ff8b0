// A profiler plugin for NCCL that reads Railwise's events by include/railwise/profiler.h, and writes each,
// with what it is below, as a line of JSON to the file net_eventsRANK in the folder NET_EVENTS.
// profilers_test.py compiles it against the headers of NCCL's example profiler.
#include <sys/types.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "err.h"
#include "profiler.h"
#include "railwise/profiler.h"

namespace {

struct Event {
  uint64_t type;
  Event* parent;
  int is_send = 0;  // of an operation
  int step = -1;
  railwise_profiler_event_v1 net = {};
  uint64_t came = 0;
};

std::mutex g_mutex;
FILE* g_file = nullptr;
std::atomic<long> g_open = 0;
std::atomic<long> g_others = 0;  // net events of another kind than ours

ncclResult_t init(void** context, uint64_t, int* mask, const char*, int, int, int rank, ncclDebugLogger_t) {
  *context = &g_mutex;  // NCCL finalizes what is not null
  *mask = ncclProfileProxyOp | ncclProfileProxyStep | ncclProfileNetPlugin;
  const std::lock_guard<std::mutex> lock(g_mutex);
  const char* const folder = std::getenv("NET_EVENTS");
  if (folder == nullptr) return ncclInvalidUsage;
  if (g_file == nullptr)
    g_file = std::fopen((std::string(folder) + "/net_events" + std::to_string(rank)).c_str(), "w");
  return ncclSuccess;
}

ncclResult_t startEvent(void*, void** handle, ncclProfilerEventDescr_v5_t* its) {
  *handle = nullptr;
  auto* const made = new Event{its->type, static_cast<Event*>(its->parentObj)};
  if (its->type == ncclProfileProxyOp) {
    made->parent = nullptr;  // an event of a kind that was not asked for
    made->is_send = its->proxyOp.isSend;
  } else if (its->type == ncclProfileProxyStep) {
    made->step = its->proxyStep.step;
  } else if (its->type == ncclProfileNetPlugin && RAILWISE_PROFILER_IS_V1(its->netPlugin.id)) {
    made->net = *static_cast<const railwise_profiler_event_v1*>(its->netPlugin.data);
    ++g_open;
  } else {
    g_others += its->type == ncclProfileNetPlugin;
    delete made;
    return ncclSuccess;
  }
  *handle = made;
  return ncclSuccess;
}

// Operations and steps are never freed: an event below them may outlive them.
ncclResult_t stopEvent(void* handle) {
  auto* const event = static_cast<Event*>(handle);
  if (event == nullptr || event->type != ncclProfileNetPlugin) return ncclSuccess;
  --g_open;
  const Event* const step = event->parent;
  const Event* const operation = step != nullptr ? step->parent : nullptr;
  const bool below_step = step != nullptr && step->type == ncclProfileProxyStep;
  const std::lock_guard<std::mutex> lock(g_mutex);
  std::fprintf(g_file,
               "{\"kind\": \"%s\", \"below_step\": %s, \"step\": %d, \"of_send\": %d, \"bytes\": %llu, "
               "\"came\": %llu, \"message\": %llu, \"qp\": %u}\n",
               event->net.kind == RAILWISE_PROFILER_SEND ? "send" : "receive", below_step ? "true" : "false",
               below_step ? step->step : -1, operation != nullptr ? operation->is_send : -1,
               static_cast<unsigned long long>(event->net.bytes),
               static_cast<unsigned long long>(event->came),
               static_cast<unsigned long long>(event->net.message), event->net.qp_number);
  delete event;
  return ncclSuccess;
}

ncclResult_t recordEventState(void* handle, ncclProfilerEventState_v5_t state,
                              ncclProfilerEventStateArgs_v5_t* its) {
  auto* const event = static_cast<Event*>(handle);
  if (event != nullptr && event->type == ncclProfileNetPlugin && state == ncclProfilerNetPluginUpdate)
    event->came = static_cast<const railwise_profiler_event_v1*>(its->netPlugin.data)->bytes;
  return ncclSuccess;
}

ncclResult_t finalize(void*) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  std::fprintf(g_file, "{\"open\": %ld, \"others\": %ld}\n", g_open.load(), g_others.load());
  std::fflush(g_file);
  return ncclSuccess;
}

}  // namespace

extern "C" ncclProfiler_v5_t ncclProfiler_v5;
ncclProfiler_v5_t ncclProfiler_v5 = {"NetEvents", init, startEvent, stopEvent, recordEventState, finalize};
