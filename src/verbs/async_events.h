// Asynchronous events of a device (ibv_get_async_event(3)): read without waiting, in words, and acknowledged.
// One thread reads those of a context.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "verbs/library.h"

namespace railwise::verbs {

// Raised when an event says that a queue pair or completion queue is lost. The qp_context and cq_context of
// everything that is made over a watched device point to one of these, or are null: given when it is made, or
// written into the ibv_qp or ibv_cq right after. It must live as long as that object. Any thread may ask;
// raise() is for the reader of events.
//
// Others may ring(): there is something else to look at.
class FatalFlag {
 public:
  bool raised() const { return event_.load(std::memory_order_relaxed) != 0; }
  // The first event; nothing: none, or somebody rang only.
  std::optional<ibv_event_type> event() const;
  void raise(ibv_event_type type);
  void ring();
  // For the owner, before it looks: what comes from now on raises it again.
  void clear() { event_.exchange(0); }  // before whatever is loaded next

 private:
  static constexpr uint32_t kRung = ~0U;
  std::atomic<uint32_t> event_{0};  // type + 1; 0: none
};

// An event in plain values.
struct AsyncEvent {
  enum class Of : uint8_t { kDevice, kPort, kQueuePair, kCompletionQueue, kOther };

  ibv_event_type type = {};
  Of of = Of::kDevice;
  uint8_t port = 0;           // kPort
  uint32_t qp_number = 0;     // kQueuePair
  FatalFlag* flag = nullptr;  // kQueuePair, kCompletionQueue: what its maker gave
};

// Makes the context's descriptor non-blocking. Errors: kSystem, logged.
Status makeEventsNonBlocking(ibv_context* context);

// Reads the next event, if any, hands it to `handle` and acknowledges it; false: there is none now. Until it
// is acknowledged its queue pair or completion queue cannot be destroyed, so `flag` is good in `handle` and
// not after. Errors: kSystem with errno, not logged: there will be no more events.
Result<bool> takeEvent(ibv_context* context, const std::function<void(const AsyncEvent&)>& handle);

// What the event does to whom it concerns.
enum class EventEffect : uint8_t {
  kNone,         // nothing that matters here
  kFatal,        // the device, queue pair or completion queue is lost
  kPortDown,     // no traffic on the port
  kPortUp,       // there is again
  kAddresses,    // GIDs, LID or partition keys may be others
  kPortChanged,  // another attribute: speed
};
EventEffect effectOf(ibv_event_type type);

// "link down: check the cable, the switch port and `ibstat`": what happened and what to check.
const char* eventText(ibv_event_type type);
// "mlx5_0 port 1: link down: ..."
std::string describeEvent(const char* device, const AsyncEvent& event);

}  // namespace railwise::verbs
