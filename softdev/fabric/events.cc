#include "softdev/fabric/events.h"

#include "softdev/fabric/doorbell.h"

namespace railwise::softdev {
EventOf eventOf(uint32_t type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return EventOf::kCq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return EventOf::kQp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return EventOf::kSrq;
    case IBV_EVENT_DEVICE_FATAL:
      return EventOf::kDevice;
    default:
      return EventOf::kPort;
  }
}

void raiseEvent(const Fabric& fabric, uint32_t context, ibv_event_type type, uint32_t element) {
  ContextRecord& record = fabric.segment->contexts[context];
  const uint32_t owner = record.owner.load(std::memory_order_acquire);
  if (owner == 0) return;
  {
    const SharedLockGuard guard(record.events_lock, fabric.self);
    const uint32_t tail = record.events_tail.load(std::memory_order_relaxed);
    const uint32_t head = record.events_head.load(std::memory_order_relaxed);
    record.events[tail % kMaxEvents] = {static_cast<uint32_t>(type), element};
    if (tail - head >= kMaxEvents) record.events_head.store(head + 1, std::memory_order_release);
    record.events_tail.store(tail + 1, std::memory_order_release);
  }
  ring(fabric, owner, record.doorbell);
}

void raiseQpEvent(const Fabric& fabric, const QpRecord& qp, ibv_event_type type) {
  raiseEvent(fabric, qp.context, type, static_cast<uint32_t>(&qp - fabric.segment->qps));
}

void raisePortEvent(const Fabric& fabric, uint32_t port, ibv_event_type type) {
  const Segment& segment = *fabric.segment;
  for (uint32_t i = 0; i < segment.contexts_marks.high_water; ++i) {
    const ContextRecord& context = segment.contexts[i];
    if (context.owner.load(std::memory_order_acquire) == 0) continue;
    for (uint32_t number = 1; number <= context.port_count; ++number) {
      if (context.ports[number - 1] == port) raiseEvent(fabric, i, type, number);
    }
  }
}

void dropEvents(const Fabric& fabric, uint32_t context, EventOf kind, uint32_t element) {
  ContextRecord& record = fabric.segment->contexts[context];
  const SharedLockGuard guard(record.events_lock, fabric.self);
  const uint32_t tail = record.events_tail.load(std::memory_order_relaxed);
  for (uint32_t at = record.events_head.load(std::memory_order_relaxed); at != tail; ++at) {
    EventRecord& event = record.events[at % kMaxEvents];
    if (event.type != kDroppedEvent && eventOf(event.type) == kind && event.element == element)
      event.type = kDroppedEvent;
  }
}

void waitForAcknowledgements(pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& read,
                             const uint32_t& acknowledged) {
  pthread_mutex_lock(&mutex);
  while (acknowledged != read) pthread_cond_wait(&cond, &mutex);
  pthread_mutex_unlock(&mutex);
}

void acknowledge(pthread_mutex_t& mutex, pthread_cond_t& cond, uint32_t& acknowledged, uint32_t events) {
  pthread_mutex_lock(&mutex);
  acknowledged += events;
  pthread_cond_broadcast(&cond);
  pthread_mutex_unlock(&mutex);
}

}  // namespace railwise::softdev
