// Asynchronous events: the application reads and acknowledges them here (softdev.h).
#include <algorithm>
#include <cerrno>

#include "softdev/fabric/events.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev {
namespace {

// The object of this process with this index. Null if it is gone. The caller holds context.objects.
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

// Fills in the event for the application and counts it as read. False if its object is gone. The caller holds
// context.objects.
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

// Takes the oldest event whose object still exists. False if there is none.
bool takeEvent(Context& context, ibv_async_event* event) {
  const std::lock_guard objects(context.objects);
  ContextRecord& record = *context.record;
  const SharedLockGuard guard(record.events_lock, context.fabric->self);
  uint32_t head = record.events_head.load(std::memory_order_relaxed);
  bool found = false;
  while (!found && head != record.events_tail.load(std::memory_order_relaxed)) {
    const EventRecord next = record.events[head++ % kMaxEvents];
    found = next.type != kDroppedEvent && describe(context, next, event);
  }
  record.events_head.store(head, std::memory_order_release);
  return found;
}

bool eventsLeft(const ContextRecord& record) {
  return record.events_head.load(std::memory_order_acquire) !=
         record.events_tail.load(std::memory_order_acquire);
}

}  // namespace

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
