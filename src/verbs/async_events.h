// Asynchronous events of a device (ibv_get_async_event(3)): reads them without waiting, describes them in
// words and acknowledges them. One thread reads the events of a context.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "verbs/library.h"

namespace railwise::verbs {

// Raised when an event reports that a queue pair or completion queue is lost. The qp_context or cq_context of
// every object made over a watched device points to a FatalFlag or is null. It is given when the object is
// made, or written into the ibv_qp or ibv_cq right after. The flag must live as long as that object. Any
// thread may call raised() and event(). Only the reader of events calls raise().
//
// Any thread may call ring(): then raised() is true although there is no event, so that the owner looks for
// other news. ring() and take() always write the word, so that one of the two sees the other: either take()
// comes later and its owner sees the news, or it comes earlier and the flag is raised again.
class FatalFlag {
 public:
  // Relaxed: only take() and event() lead to what has happened.
  bool raised() const { return event_.load(std::memory_order_relaxed) != 0; }
  // The first event. Nothing: there was none, or only a ring().
  std::optional<ibv_event_type> event() const;
  void raise(ibv_event_type type);
  void ring();
  // For the owner, before it looks for news: like event(), and everything that comes from now on raises the
  // flag again.
  std::optional<ibv_event_type> take() { return eventOf(event_.exchange(0, std::memory_order_acq_rel)); }

 private:
  static constexpr uint32_t kRung = ~0U;
  static std::optional<ibv_event_type> eventOf(uint32_t value);
  std::atomic<uint32_t> event_{0};  // type + 1; 0: none
};

// An event in plain values.
struct AsyncEvent {
  enum class Of : uint8_t { kDevice, kPort, kQueuePair, kCompletionQueue, kOther };

  ibv_event_type type = {};
  Of of = Of::kDevice;
  uint8_t port = 0;        // for kPort
  uint32_t qp_number = 0;  // for kQueuePair
  // For kQueuePair and kCompletionQueue: the object's qp_context or cq_context.
  void* const* context = nullptr;

  // The flag of the object; null: it has none. The object's owner may take the flag away at any time, so call
  // this under the lock that the owner takes.
  FatalFlag* flag() const { return context != nullptr ? static_cast<FatalFlag*>(*context) : nullptr; }
};

// Makes the context's descriptor non-blocking. Errors: kSystem, logged.
Status makeEventsNonBlocking(ibv_context* context);

// Reads the next event, if any, passes it to `handle` and acknowledges it. False: there is no event now. The
// queue pair or completion queue of an event cannot be destroyed before the acknowledgement, so `context` is
// valid in `handle` but not later. Errors: kSystem with errno, not logged; there will be no more events.
Result<bool> takeEvent(ibv_context* context, const std::function<void(const AsyncEvent&)>& handle);

// What an event does to its object.
enum class EventEffect : uint8_t {
  kNone,         // nothing that matters here
  kFatal,        // the device, queue pair or completion queue is lost
  kPortDown,     // the port carries no traffic
  kPortUp,       // the port carries traffic again
  kAddresses,    // GIDs, the LID or partition keys may have changed
  kPortChanged,  // another attribute of the port has changed: the speed
};
EventEffect effectOf(ibv_event_type type);

// "link down: check the cable, the switch port and `ibstat`": what happened and what to check.
const char* eventText(ibv_event_type type);
// "mlx5_0 port 1: link down: ..."
std::string describeEvent(const char* device, const AsyncEvent& event);

}  // namespace railwise::verbs
