// Asynchronous events on their way to the application (ibv_get_async_event(3)). Any process may raise an
// event for any context. The event waits in the record of the context until the application reads it.
// Thread-safe. The lock used here comes last in the lock order, so that a thread may raise events while it
// holds any other lock, except that of the fault table.
#pragma once

#include <pthread.h>

#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// Replaces the type of an event whose object is gone.
constexpr uint32_t kDroppedEvent = ~0U;

// The kind of object that an event concerns.
enum class EventOf : uint8_t { kDevice, kPort, kQp, kCq, kSrq };
EventOf eventOf(uint32_t type);

// Queues an event for the context with this index and wakes the thread that waits for events. `element` is
// the index of the QP, CQ or SRQ, or the port number of the device. A context keeps kMaxEvents unread events;
// after that the oldest is dropped. Does nothing if the context is gone.
void raiseEvent(const Fabric& fabric, uint32_t context, ibv_event_type type, uint32_t element);
void raiseQpEvent(const Fabric& fabric, const QpRecord& qp, ibv_event_type type);
// Raises the event for every context that has the port (index of its PortRecord) open.
void raisePortEvent(const Fabric& fabric, uint32_t port, ibv_event_type type);

// Removes the unread events of an object that is being destroyed.
void dropEvents(const Fabric& fabric, uint32_t context, EventOf kind, uint32_t element);

// Returns when the application has acknowledged every event that it read for an object: `acknowledged` has
// grown to `read`. The object's mutex guards both.
void waitForAcknowledgements(pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& read,
                             const uint32_t& acknowledged);
void acknowledge(pthread_mutex_t& mutex, pthread_cond_t& cond, uint32_t& acknowledged, uint32_t events);

}  // namespace railwise::softdev
