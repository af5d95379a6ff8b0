// Asynchronous events on their way to the application (ibv_get_async_event(3)). Any process may raise one for
// any context; it waits in the context's record until somebody reads it. Thread-safe; the lock used here is
// the last of the lock order, so that events may be raised while any other lock is held.
#pragma once

#include <pthread.h>

#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// In place of the type of an event whose object is gone.
constexpr uint32_t kDroppedEvent = ~0U;

// What the element of an event is.
enum class EventOf : uint8_t { kDevice, kPort, kQp, kCq, kSrq };
EventOf eventOf(uint32_t type);

// Queues an event for the context with this index and wakes who waits for one. `element`: index of the QP, CQ
// or SRQ, or the port number of the device. When nobody reads them, the oldest of kMaxEvents goes. Does
// nothing when the context is gone.
void raiseEvent(const Fabric& fabric, uint32_t context, ibv_event_type type, uint32_t element);
void raiseQpEvent(const Fabric& fabric, const QpRecord& qp, ibv_event_type type);
// For every context that has the port (index of its PortRecord) open.
void raisePortEvent(const Fabric& fabric, uint32_t port, ibv_event_type type);

// Takes back what was not read of an object that goes.
void dropEvents(const Fabric& fabric, uint32_t context, EventOf kind, uint32_t element);

// Returns when every event that was read of an object is acknowledged: `acknowledged` has grown to `read`.
// Both are guarded by the object's mutex.
void waitForAcknowledgements(pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& read,
                             const uint32_t& acknowledged);
void acknowledge(pthread_mutex_t& mutex, pthread_cond_t& cond, uint32_t& acknowledged, uint32_t events);

}  // namespace railwise::softdev
