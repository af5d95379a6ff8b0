// Shared receive queues (softdev.h).
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "softdev/engine/datapath.h"
#include "softdev/fabric/events.h"
#include "softdev/fabric/tables.h"
#include "softdev/faults/verb_faults.h"
#include "softdev/queues/objects.h"
#include "softdev/queues/receive_claim.h"
#include "softdev/verbs/completion_queue.h"

namespace railwise::softdev {
namespace {

uint64_t ringBytes(const SrqRecord& record) { return uint64_t{record.slots} * record.stride_bytes; }

// Makes the record and the ring of the SRQ. Returns 0 or an errno.
int publishSrq(Srq& srq, uint32_t context, uint32_t pd, uint32_t limit) {
  Fabric& fabric = *srq.fabric;
  const uint32_t slots = std::bit_ceil(srq.max_wr);
  const uint64_t bytes = uint64_t{slots} * strideOf(srq.max_sge);
  uint64_t ring = 0;
  if (!allocatePages(fabric, bytes, &ring)) return ENOMEM;
  srq.index = allocateSrq(fabric);
  if (srq.index == 0) {
    releasePages(fabric, ring, bytes);
    return ENOMEM;
  }
  srq.record = &fabric.segment->srqs[srq.index];
  SrqRecord& record = *srq.record;
  const SharedLockGuard guard(record.lock, fabric.self);
  record.context = context;
  record.pd = pd;
  record.slots = slots;
  record.stride_bytes = strideOf(srq.max_sge);
  record.ring = ring;
  record.claim_qp.store(0, std::memory_order_relaxed);
  record.limit.store(limit, std::memory_order_relaxed);
  record.head.store(0, std::memory_order_relaxed);
  record.tail.store(0, std::memory_order_relaxed);
  record.receives = 0;
  record.receive_posts = 0;
  return 0;
}

int writeReceive(const Srq& srq, const ibv_recv_wr& wr, uint64_t position) {
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > srq.max_sge) return EINVAL;
  if (position - srq.record->head.load(std::memory_order_acquire) >= srq.max_wr) return ENOMEM;
  ReceiveEntry& entry = receiveAt(*srq.fabric->segment, *srq.record, position);
  entry.wr_id = wr.wr_id;
  entry.num_sge = static_cast<uint32_t>(wr.num_sge);
  for (int i = 0; i < wr.num_sge; ++i)
    entry.sges()[i] = {wr.sg_list[i].addr, wr.sg_list[i].length, wr.sg_list[i].lkey};
  return 0;
}

}  // namespace

ibv_srq* createSrq(ibv_pd* base, ibv_srq_init_attr* init) {
  if (verbFails(as<Context>(base->context), Verb::kCreateSrq)) return nullptr;
  Context& context = as<Context>(base->context);
  ibv_srq_attr& attr = init->attr;
  if (attr.max_wr < 1 || attr.max_wr > kMaxQpWr || attr.max_sge > context.config_device->config.max_sge ||
      attr.srq_limit > attr.max_wr) {
    errno = EINVAL;
    return nullptr;
  }
  auto srq = std::make_unique<Srq>();
  srq->context = base->context;
  srq->srq_context = init->srq_context;
  srq->pd = base;
  srq->fabric = context.fabric;
  srq->max_wr = attr.max_wr;
  srq->max_sge = std::max(attr.max_sge, 1U);
  if (const int error = publishSrq(*srq, context.index, as<Pd>(base).id, attr.srq_limit); error != 0) {
    errno = error;
    return nullptr;
  }
  srq->handle = srq->index;
  attr.max_sge = srq->max_sge;
  pthread_mutex_init(&srq->mutex, nullptr);
  pthread_cond_init(&srq->cond, nullptr);
  as<Pd>(base).users.fetch_add(1);
  const std::lock_guard lock(context.objects);
  context.srqs.push_back(srq.get());
  return srq.release();
}

ibv_srq* createSrqEx(ibv_context* context, ibv_srq_init_attr_ex* attr) {
  constexpr uint32_t kUnderstood = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  const bool basic = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || attr->srq_type == IBV_SRQT_BASIC;
  if ((attr->comp_mask & ~kUnderstood) != 0 || !basic) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr || attr->pd->context != context) {
    errno = EINVAL;
    return nullptr;
  }
  ibv_srq_init_attr init{attr->srq_context, attr->attr};
  ibv_srq* srq = createSrq(attr->pd, &init);
  if (srq != nullptr) attr->attr = init.attr;
  return srq;
}

int modifySrq(ibv_srq* base, ibv_srq_attr* attr, int mask) {
  if (const int injected = verbFault(as<Context>(base->context), Verb::kModifySrq); injected != 0)
    return injected;
  Srq& srq = as<Srq>(base);
  // The SRQ cannot be resized, and the device does not claim that (IBV_DEVICE_SRQ_RESIZE).
  if ((mask & ~IBV_SRQ_LIMIT) != 0) return EINVAL;
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  if (attr->srq_limit > srq.max_wr) return EINVAL;
  const SrqGuard guard(*srq.fabric, *srq.record);
  srq.record->limit.store(attr->srq_limit, std::memory_order_relaxed);
  checkLimit(*srq.fabric, *srq.record);
  return 0;
}

int querySrq(ibv_srq* base, ibv_srq_attr* attr) {
  if (const int injected = verbFault(as<Context>(base->context), Verb::kQuerySrq); injected != 0)
    return injected;
  const Srq& srq = as<Srq>(base);
  *attr = {srq.max_wr, srq.max_sge, srq.record->limit.load(std::memory_order_relaxed)};
  return 0;
}

int getSrqNum(ibv_srq* base, uint32_t* srq_num) {
  *srq_num = as<Srq>(base).index;
  return 0;
}

int destroySrq(ibv_srq* base) {
  if (const int injected = verbFault(as<Context>(base->context), Verb::kDestroySrq); injected != 0)
    return injected;
  Srq& srq = as<Srq>(base);
  if (srq.users.load() != 0) return EBUSY;
  Context& context = as<Context>(base->context);
  {
    const std::lock_guard lock(context.objects);
    std::erase(context.srqs, &srq);
    retireCounters(context, srq);
  }
  if (!srq.fabric->forgotten) {
    dropEvents(*srq.fabric, context.index, EventOf::kSrq, srq.index);
    waitForAcknowledgements(srq.mutex, srq.cond, srq.events_read, srq.events_completed);
    const uint64_t ring = srq.record->ring;
    const uint64_t bytes = ringBytes(*srq.record);
    releaseSrq(*srq.fabric, srq.index);
    releasePages(*srq.fabric, ring, bytes);
  }
  as<Pd>(srq.pd).users.fetch_sub(1);
  pthread_cond_destroy(&srq.cond);
  pthread_mutex_destroy(&srq.mutex);
  delete &srq;
  return 0;
}

int postSrqRecv(ibv_srq* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  if (const int injected = verbFault(as<Context>(base->context), Verb::kPostSrqRecv); injected != 0) {
    *bad_wr = wr;
    return injected;
  }
  Srq& srq = as<Srq>(base);
  const std::lock_guard lock(srq.post_lock);
  SrqRecord& record = *srq.record;
  const uint64_t first = record.tail.load(std::memory_order_relaxed);
  uint64_t position = first;
  int error = 0;
  for (; wr != nullptr; wr = wr->next, ++position) {
    error = writeReceive(srq, *wr, position);
    if (error == 0) continue;
    *bad_wr = wr;
    break;
  }
  record.receive_posts.add(1);
  record.receives.add(position - first);
  record.tail.store(position, std::memory_order_seq_cst);
  return error;
}

}  // namespace railwise::softdev
