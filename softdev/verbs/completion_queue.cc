#include "softdev/verbs/completion_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "softdev/fabric/events.h"
#include "softdev/fabric/tables.h"
#include "softdev/faults/verb_faults.h"
#include "softdev/queues/completion_ring.h"

namespace railwise::softdev {
namespace {

// Makes the record and the ring of the CQ. Returns 0 or an errno.
int publishCq(Cq& cq, uint32_t context, uint32_t capacity, const CqWishes& wishes) {
  Fabric& fabric = *cq.fabric;
  uint64_t ring = 0;
  if (!allocatePages(fabric, uint64_t{capacity} * sizeof(Cqe), &ring)) return ENOMEM;
  cq.index = allocateCq(fabric);
  if (cq.index == 0) {
    releasePages(fabric, ring, uint64_t{capacity} * sizeof(Cqe));
    return ENOMEM;
  }
  cq.record = &fabric.segment->cqs[cq.index];
  SharedLockGuard guard(cq.record->lock, fabric.self);
  cq.record->context = context;
  cq.record->capacity = capacity;
  cq.record->channel = wishes.channel != nullptr ? as<Channel>(wishes.channel).bell.id() : 0;
  cq.record->stamped = wishes.stamped ? 1 : 0;
  cq.record->timed.store(0, std::memory_order_relaxed);
  cq.record->ignore_overrun = wishes.ignore_overrun ? 1 : 0;
  cq.record->armed.store(kNotArmed, std::memory_order_relaxed);
  cq.record->events.store(0, std::memory_order_relaxed);
  cq.record->counters.clear();
  cq.record->ring = ring;
  cq.record->overflowed.store(0, std::memory_order_relaxed);
  cq.record->head.store(0, std::memory_order_relaxed);
  cq.record->tail.store(0, std::memory_order_relaxed);
  return 0;
}

void joinChannel(Cq& cq) {
  if (cq.channel == nullptr) return;
  Channel& channel = as<Channel>(cq.channel);
  const std::lock_guard lock(channel.mutex);
  channel.cqs.push_back(&cq);
  ++channel.refcnt;
}

void leaveChannel(Cq& cq) {
  if (cq.channel == nullptr) return;
  Channel& channel = as<Channel>(cq.channel);
  const std::lock_guard lock(channel.mutex);
  std::erase(channel.cqs, &cq);
  channel.next = 0;
  --channel.refcnt;
}

struct Ring {
  uint64_t offset;  // arena offset
  uint32_t capacity;
  uint64_t bytes() const { return uint64_t{capacity} * sizeof(Cqe); }
};

// Moves the content of the CQ's ring to `ring`, and stores the old ring in `ring`. False, with nothing
// changed, if the new ring has no room.
bool swapRing(Cq& cq, Ring* ring) {
  const std::lock_guard poll(cq.poll_lock);
  CqRecord& record = *cq.record;
  const CqGuard guard(*cq.fabric, record);
  const uint64_t head = record.head.load(std::memory_order_relaxed);
  const uint64_t tail = record.tail.load(std::memory_order_relaxed);
  if (tail - head > ring->capacity) return false;
  auto* to = arenaAt<Cqe>(*cq.fabric->segment, ring->offset);
  for (uint64_t at = head; at != tail; ++at)
    to[at & (ring->capacity - 1)] = cqeAt(*cq.fabric->segment, record, at);
  const Ring old{record.ring, record.capacity};
  // We may be killed between two stores, so the capacity must never be larger than that of the ring.
  record.capacity = std::min(old.capacity, ring->capacity);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  record.ring = ring->offset;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  record.capacity = ring->capacity;
  cq.cqe = static_cast<int>(ring->capacity);
  *ring = old;
  return true;
}

}  // namespace

ibv_cq* createCq(ibv_context* base, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector) {
  return makeCq(base, {.capacity = static_cast<uint32_t>(std::max(cqe, 0)),
                       .cq_context = cq_context,
                       .channel = channel,
                       .comp_vector = static_cast<uint32_t>(comp_vector)});
}

ibv_cq* makeCq(ibv_context* base, const CqWishes& wishes) {
  if (verbFails(as<Context>(base), Verb::kCreateCq)) return nullptr;
  if (wishes.capacity < 1 || wishes.capacity > as<Context>(base).config_device->config.max_cqe ||
      wishes.comp_vector >= static_cast<uint32_t>(base->num_comp_vectors) ||
      (wishes.channel != nullptr && wishes.channel->context != base)) {
    errno = EINVAL;
    return nullptr;
  }
  Context& context = as<Context>(base);
  auto cq = std::make_unique<Cq>();
  const uint32_t capacity = std::bit_ceil(wishes.capacity);
  cq->context = base;
  cq->channel = wishes.channel;
  cq->cq_context = wishes.cq_context;
  cq->cqe = static_cast<int>(capacity);
  cq->fabric = context.fabric;
  if (const int error = publishCq(*cq, context.index, capacity, wishes); error != 0) {
    errno = error;
    return nullptr;
  }
  cq->handle = cq->index;
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  joinChannel(*cq);
  std::lock_guard lock(context.objects);
  context.cqs.push_back(cq.get());
  return ibv_cq_ex_to_cq(cq.release());
}

int destroyCq(ibv_cq* base) {
  if (const int injected = verbFault(as<Context>(base->context), Verb::kDestroyCq); injected != 0)
    return injected;
  Cq& cq = as<Cq>(base);
  if (cq.users.load() != 0) return EBUSY;
  Context& context = as<Context>(base->context);
  leaveChannel(cq);
  {
    std::lock_guard lock(context.objects);
    std::erase(context.cqs, &cq);
    retireCounters(context, cq);
  }
  if (!cq.fabric->forgotten) {
    dropEvents(*cq.fabric, context.index, EventOf::kCq, cq.index);
    waitForAcknowledgements(cq.mutex, cq.cond, cq.comp_events_read, cq.comp_events_completed);
    waitForAcknowledgements(cq.mutex, cq.cond, cq.async_events_read, cq.async_events_completed);
    const uint64_t ring = cq.record->ring;
    const uint64_t bytes = uint64_t{cq.record->capacity} * sizeof(Cqe);
    releaseCq(*cq.fabric, cq.index);
    releasePages(*cq.fabric, ring, bytes);
  }
  pthread_cond_destroy(&cq.cond);
  pthread_mutex_destroy(&cq.mutex);
  delete &cq;
  return 0;
}

int resizeCq(ibv_cq* base, int cqe) {
  if (const int injected = verbFault(as<Context>(base->context), Verb::kResizeCq); injected != 0)
    return injected;
  Cq& cq = as<Cq>(base);
  if (cqe < 1 || static_cast<uint32_t>(cqe) > as<Context>(base->context).config_device->config.max_cqe)
    return EINVAL;
  Ring ring{0, std::bit_ceil(static_cast<uint32_t>(cqe))};
  if (!allocatePages(*cq.fabric, ring.bytes(), &ring.offset)) return ENOMEM;
  const bool fits = swapRing(cq, &ring);
  releasePages(*cq.fabric, ring.offset, ring.bytes());
  return fits ? 0 : EINVAL;
}

void voidCompletions(ibv_cq* base, uint32_t qp_index) {
  Cq& cq = as<Cq>(base);
  std::lock_guard lock(cq.poll_lock);
  const uint64_t tail = cq.record->tail.load(std::memory_order_acquire);
  for (uint64_t at = cq.record->head.load(std::memory_order_relaxed); at != tail; ++at) {
    Cqe& cqe = cqeAt(*cq.fabric->segment, *cq.record, at);
    if (cqe.qp_index == qp_index) makeVoid(cqe);
  }
}

}  // namespace railwise::softdev
