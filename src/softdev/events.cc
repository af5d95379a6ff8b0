// Asynchronous events (softdev.h, events.h).
#include "softdev/events.h"

#include <algorithm>
#include <cerrno>

#include "softdev/objects.h"

namespace railwise::softdev {
namespace {

constexpr uint32_t kDropped = ~0U;  // in place of the type of an event whose object is gone

// The object of this process with the index, whose event counts as read from now on; null when it is gone.
// context.objects is held.
template <typename Object>
Object* readElement(const std::vector<Object*>& objects, uint32_t index) {
  const auto at =
      std::find_if(objects.begin(), objects.end(), [index](const Object* o) { return o->index == index; });
  return at != objects.end() ? *at : nullptr;
}

void countRead(pthread_mutex_t& mutex, uint32_t& read) {
  pthread_mutex_lock(&mutex);
  ++read;
  pthread_mutex_unlock(&mutex);
}

// Fills in the event for the application; false when its object is gone. context.objects is held.
bool describe(const Context& context, const EventRecord& record, ibv_async_event* event) {
  event->event_type = static_cast<ibv_event_type>(record.type);
  switch (eventOf(record.type)) {
    case EventOf::kQp:
      if (Qp* qp = readElement(context.qps, record.element); qp != nullptr) {
        event->element.qp = &qp->qp_base;
        countRead(qp->qp_base.mutex, qp->events_read);
        return true;
      }
      return false;
    case EventOf::kCq:
      if (Cq* cq = readElement(context.cqs, record.element); cq != nullptr) {
        event->element.cq = ibv_cq_ex_to_cq(cq);
        countRead(cq->mutex, cq->async_events_read);
        return true;
      }
      return false;
    case EventOf::kSrq:
      if (Srq* srq = readElement(context.srqs, record.element); srq != nullptr) {
        event->element.srq = srq;
        countRead(srq->mutex, srq->events_read);
        return true;
      }
      return false;
    default:
      event->element.port_num = static_cast<int>(record.element);
      return true;
  }
}

// The oldest event that is still of use; *more when there are others.
bool takeEvent(Context& context, ibv_async_event* event) {
  const std::lock_guard objects(context.objects);
  ContextRecord& record = *context.record;
  const SharedLockGuard guard(record.events_lock, context.fabric->self);
  uint32_t head = record.events_head.load(std::memory_order_relaxed);
  bool found = false;
  while (!found && head != record.events_tail.load(std::memory_order_relaxed)) {
    const EventRecord next = record.events[head++ % kMaxEvents];
    found = next.type != kDropped && describe(context, next, event);
  }
  record.events_head.store(head, std::memory_order_release);
  return found;
}

bool eventsLeft(const ContextRecord& record) {
  return record.events_head.load(std::memory_order_acquire) !=
         record.events_tail.load(std::memory_order_acquire);
}

}  // namespace

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
    if (event.type != kDropped && eventOf(event.type) == kind && event.element == element)
      event.type = kDropped;
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

int getAsyncEvent(ibv_context* base, ibv_async_event* event) {
  Context& context = as<Context>(base);
  while (context.events.take()) {
    const bool found = takeEvent(context, event);
    context.events.drain();
    if (eventsLeft(*context.record)) ring(*context.fabric, context.fabric->self.token, context.events.id());
    if (found) return 0;
  }
  return -1;
}

void ackAsyncEvent(ibv_async_event* event) {
  switch (eventOf(event->event_type)) {
    case EventOf::kQp: {
      ibv_qp& qp = *event->element.qp;
      return acknowledge(qp.mutex, qp.cond, qp.events_completed, 1);
    }
    case EventOf::kCq: {
      ibv_cq& cq = *event->element.cq;
      return acknowledge(cq.mutex, cq.cond, cq.async_events_completed, 1);
    }
    case EventOf::kSrq: {
      ibv_srq& srq = *event->element.srq;
      return acknowledge(srq.mutex, srq.cond, srq.events_completed, 1);
    }
    default:
      return;
  }
}

}  // namespace railwise::softdev
