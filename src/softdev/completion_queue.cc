#include "softdev/completion_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "softdev/tables.h"

namespace railwise::softdev {
namespace {

// The CQ's record and ring; 0 or errno.
int publishCq(Cq& cq, uint32_t context, uint32_t capacity) {
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
  cq.record->channel = 0;
  cq.record->stamped = 0;
  cq.record->armed.store(kNotArmed, std::memory_order_relaxed);
  cq.record->events.store(0, std::memory_order_relaxed);
  cq.record->counters.clear();
  cq.record->ring = ring;
  cq.record->overflowed.store(0, std::memory_order_relaxed);
  cq.record->head.store(0, std::memory_order_relaxed);
  cq.record->tail.store(0, std::memory_order_relaxed);
  return 0;
}

}  // namespace

ibv_cq* createCq(ibv_context* base, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector) {
  if (channel != nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (cqe < 1 || static_cast<uint32_t>(cqe) > kMaxCqe || comp_vector < 0 ||
      comp_vector >= base->num_comp_vectors) {
    errno = EINVAL;
    return nullptr;
  }
  Context& context = as<Context>(base);
  auto cq = std::make_unique<Cq>();
  const uint32_t capacity = std::bit_ceil(static_cast<uint32_t>(cqe));
  cq->context = base;
  cq->cq_context = cq_context;
  cq->cqe = static_cast<int>(capacity);
  cq->fabric = context.fabric;
  if (const int error = publishCq(*cq, context.index, capacity); error != 0) {
    errno = error;
    return nullptr;
  }
  cq->handle = cq->index;
  std::lock_guard lock(context.objects);
  context.cqs.push_back(cq.get());
  return ibv_cq_ex_to_cq(cq.release());
}

int destroyCq(ibv_cq* base) {
  Cq& cq = as<Cq>(base);
  if (cq.users.load() != 0) return EBUSY;
  Context& context = as<Context>(base->context);
  {
    std::lock_guard lock(context.objects);
    std::erase(context.cqs, &cq);
    retireCounters(context, cq);
  }
  if (!cq.fabric->forgotten) {
    const uint64_t ring = cq.record->ring;
    const uint64_t bytes = uint64_t{cq.record->capacity} * sizeof(Cqe);
    releaseCq(*cq.fabric, cq.index);
    releasePages(*cq.fabric, ring, bytes);
  }
  delete &cq;
  return 0;
}

void voidCompletions(ibv_cq* base, uint32_t qp_index) {
  Cq& cq = as<Cq>(base);
  std::lock_guard lock(cq.poll_lock);
  const uint64_t tail = cq.record->tail.load(std::memory_order_acquire);
  for (uint64_t at = cq.record->head.load(std::memory_order_relaxed); at != tail; ++at) {
    Cqe& cqe = cqeAt(*cq.fabric->segment, *cq.record, at);
    if (cqe.qp_index == qp_index) cqe.kind = CqeKind::kVoid;
  }
}

}  // namespace railwise::softdev
