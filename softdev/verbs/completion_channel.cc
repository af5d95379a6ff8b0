// Completion channels and their events (softdev.h). The owner arms a CQ in its record. A process that
// completes something there disarms the CQ, counts an event and rings the channel. A ring says only that some
// CQ of the channel has events, so the reader looks at all CQs.
#include <algorithm>
#include <cerrno>
#include <thread>

#include "softdev/engine/datapath.h"
#include "softdev/fabric/events.h"
#include "softdev/fabric/monotonic.h"
#include "softdev/faults/verb_faults.h"
#include "softdev/queues/completion_ring.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev {
namespace {

constexpr uint64_t kNever = ~uint64_t{0};

// When the first and the last completion in the ring may be polled; {kNever, 0} if there is none. Without the
// time model it returns that at once, because the caller may be between ibv_start_poll and ibv_end_poll.
struct ReadyTimes {
  uint64_t first = kNever;
  uint64_t last = 0;
};
ReadyTimes readyTimes(Cq& cq) {
  ReadyTimes ready;
  if (cq.record->timed.load(std::memory_order_relaxed) == 0) return ready;
  const std::lock_guard lock(cq.poll_lock);
  const uint64_t tail = cq.record->tail.load(std::memory_order_acquire);
  for (uint64_t at = cq.record->head.load(std::memory_order_relaxed); at != tail; ++at) {
    const Cqe& cqe = cqeAt(*cq.fabric->segment, *cq.record, at);
    if (cqe.kind == CqeKind::kVoid) continue;
    ready.first = std::min(ready.first, cqe.ready_ns);
    ready.last = std::max(ready.last, cqe.ready_ns);
  }
  return ready;
}

// Is there a completion in the ring that may be polled only later? Nobody will announce it again.
bool unreadyLeft(Cq& cq) { return readyTimes(cq).last > monotonicNs(); }

// In the time model a process announces an event when it writes the completion. The application gets the
// event when the completion may be polled.
void waitUntilReady(Cq& cq) {
  const uint64_t ready = readyTimes(cq).first;
  const uint64_t now = monotonicNs();
  if (ready != kNever && ready > now) std::this_thread::sleep_for(std::chrono::nanoseconds(ready - now));
}

// Takes one event: returns a CQ with an event and counts the event as read. Null if there is none. The caller
// holds channel.mutex.
Cq* takeEvent(Channel& channel) {
  for (size_t i = 0; i < channel.cqs.size(); ++i) {
    Cq& cq = *channel.cqs[(channel.next + i) % channel.cqs.size()];
    if (cq.record->events.load(std::memory_order_acquire) == 0) continue;
    cq.record->events.fetch_sub(1, std::memory_order_acq_rel);
    channel.next = (channel.next + i + 1) % channel.cqs.size();
    pthread_mutex_lock(&cq.mutex);
    ++cq.comp_events_read;
    pthread_mutex_unlock(&cq.mutex);
    return &cq;
  }
  return nullptr;
}

bool eventsLeft(const Channel& channel) {
  return std::any_of(channel.cqs.begin(), channel.cqs.end(),
                     [](const Cq* cq) { return cq->record->events.load(std::memory_order_acquire) != 0; });
}

}  // namespace

ibv_comp_channel* createCompChannel(ibv_context* base) {
  if (verbFails(as<Context>(base), Verb::kCreateCompChannel)) return nullptr;
  Context& context = as<Context>(base);
  auto channel = std::make_unique<Channel>();
  if (const Status opened = channel->bell.open(*context.fabric); !opened.ok()) {
    errno = opened.sys_errno;
    return nullptr;
  }
  channel->context = base;
  channel->fd = channel->bell.fd();
  channel->refcnt = 0;
  const std::lock_guard lock(context.objects);
  context.channels.push_back(channel.get());
  return channel.release();
}

int destroyCompChannel(ibv_comp_channel* base) {
  Channel& channel = as<Channel>(base);
  Context& context = as<Context>(base->context);
  {
    const std::lock_guard objects(context.objects);
    const std::lock_guard lock(channel.mutex);
    if (!channel.cqs.empty()) return EBUSY;
    std::erase(context.channels, &channel);
  }
  delete &channel;
  return 0;
}

int getCqEvent(ibv_comp_channel* base, ibv_cq** cq, void** cq_context) {
  Channel& channel = as<Channel>(base);
  Fabric& fabric = *as<Context>(base->context).fabric;
  while (channel.bell.take()) {
    Cq* found = nullptr;
    {
      const std::lock_guard lock(channel.mutex);
      found = takeEvent(channel);
      channel.bell.drain();
      if (eventsLeft(channel)) ring(fabric, fabric.self.token, channel.bell.id());
    }
    if (found == nullptr) continue;  // another thread has taken the event
    waitUntilReady(*found);
    *cq = ibv_cq_ex_to_cq(found);
    *cq_context = found->cq_context;
    return 0;
  }
  return -1;
}

void ackCqEvents(ibv_cq* cq, unsigned int events) {
  if (events != 0) acknowledge(cq->mutex, cq->cond, cq->comp_events_completed, events);
}

int reqNotifyCq(ibv_cq* base, int solicited_only) {
  if (const int injected = verbFault(as<Context>(base->context), Verb::kReqNotifyCq); injected != 0)
    return injected;
  Cq& cq = as<Cq>(base);
  if (cq.channel == nullptr) return EINVAL;
  CqRecord& record = *cq.record;
  // A request for any completion stays until an event meets it. A later request for solicited completions
  // does not weaken it.
  uint32_t before = record.armed.load(std::memory_order_relaxed);
  const uint32_t wanted = solicited_only != 0 ? kArmedSolicited : kArmed;
  while (before != kArmed && !record.armed.compare_exchange_weak(before, wanted, std::memory_order_seq_cst))
    continue;
  fullFence();
  if (!unreadyLeft(cq)) return 0;
  const CqGuard guard(*cq.fabric, record);
  announce(*cq.fabric, record, true);
  return 0;
}

}  // namespace railwise::softdev
