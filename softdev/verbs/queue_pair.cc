// Makes, queries and destroys queue pairs (softdev.h). Their transitions are in transitions.cc.
#include "softdev/verbs/queue_pair.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>

#include "softdev/engine/packets.h"
#include "softdev/engine/progress.h"
#include "softdev/engine/requester.h"
#include "softdev/fabric/events.h"
#include "softdev/fabric/tables.h"
#include "softdev/faults/verb_faults.h"
#include "softdev/queues/receive_claim.h"
#include "softdev/queues/responder.h"
#include "softdev/verbs/completion_queue.h"
#include "softdev/verbs/iwarp.h"
#include "softdev/verbs/send_builder.h"
#include "softdev/verbs/transitions.h"

namespace railwise::softdev {
namespace {

// Returns 0, or the errno with which the creation of this QP must fail.
int checkInit(const Context& context, const ibv_qp_init_attr& init) {
  const DeviceConfig& config = context.config_device->config;
  const ibv_qp_cap& cap = init.cap;
  if (init.qp_type != IBV_QPT_RC && (init.qp_type != IBV_QPT_UD || config.iwarp())) return EOPNOTSUPP;
  if (init.send_cq == nullptr || init.recv_cq == nullptr || init.send_cq->context != &context.context ||
      init.recv_cq->context != &context.context ||
      (init.srq != nullptr && init.srq->context != &context.context))
    return EINVAL;
  if (cap.max_send_wr > config.max_qp_wr || cap.max_recv_wr > config.max_qp_wr ||
      cap.max_send_sge > config.max_sge || cap.max_recv_sge > config.max_sge ||
      cap.max_inline_data > config.max_inline_bytes)
    return EINVAL;
  return context.qps.size() >= config.max_qp ? ENOMEM : 0;
}

// Changes the user counts of the objects that must outlive the QP.
void countUsers(Qp& qp, int change) {
  as<Pd>(qp.qp_base.pd).users.fetch_add(change);
  as<Cq>(qp.qp_base.send_cq).users.fetch_add(change);
  as<Cq>(qp.qp_base.recv_cq).users.fetch_add(change);
  if (qp.qp_base.srq != nullptr) as<Srq>(qp.qp_base.srq).users.fetch_add(change);
}

uint64_t ringBytes(const QpRecord& record) { return uint64_t{record.rq_slots} * record.rq_stride_bytes; }

// Makes the record and the receive ring of the QP. From then on it is in RESET and its number leads to it.
// Returns 0 or an errno.
int publishQp(Qp& qp) {
  Fabric& fabric = *qp.fabric;
  const Srq* srq = qp.qp_base.srq != nullptr ? &as<Srq>(qp.qp_base.srq) : nullptr;
  const uint32_t slots = srq != nullptr ? kClaimSlots : std::bit_ceil(std::max(qp.cap.max_recv_wr, 1U));
  const uint32_t sges = srq != nullptr ? srq->max_sge : qp.cap.max_recv_sge;
  const auto stride = static_cast<uint32_t>(sizeof(ReceiveEntry) + sges * sizeof(Sge));
  uint64_t ring = 0;
  if (!allocatePages(fabric, uint64_t{slots} * stride, &ring)) return ENOMEM;
  qp.index = allocateQp(fabric);
  if (qp.index == 0) {
    releasePages(fabric, ring, uint64_t{slots} * stride);
    return ENOMEM;
  }
  qp.record = &fabric.segment->qps[qp.index];
  QpRecord& record = *qp.record;
  SharedLockGuard guard(record.responder, fabric.self);
  record.context = as<Context>(qp.qp_base.context).index;
  record.pd = qp.pd_id;
  record.send_cq = as<Cq>(qp.qp_base.send_cq).index;
  record.recv_cq = as<Cq>(qp.qp_base.recv_cq).index;
  record.rq = ring;
  record.rq_slots = slots;
  record.rq_stride_bytes = stride;
  record.type = qp.qp_base.qp_type;
  record.port = as<Context>(qp.qp_base.context).record->ports[0];
  record.srq = srq != nullptr ? srq->index : 0;
  record.max_dest_rd_atomic = 0;
  record.qkey = 0;
  record.last_ready_ns = 0;
  record.received_packets = 0;
  record.counters.clear();
  record.state.store(IBV_QPS_RESET, std::memory_order_relaxed);
  record.rq_head = 0;
  record.access = 0;
  record.dest_qp_num = 0;
  record.global_path = 0;
  record.rq_tail.store(0, std::memory_order_relaxed);
  record.rq_polled.store(0, std::memory_order_relaxed);
  record.sq_polled.store(0, std::memory_order_relaxed);
  ++record.epoch;
  qp.qp_base.qp_num = (record.generation++ & 0xff) << 16 | qp.index;
  record.qp_num.store(qp.qp_base.qp_num, std::memory_order_release);
  return 0;
}

void forgetQp(Context& context, Qp& qp) {
  std::lock_guard lock(context.objects);
  std::erase(context.qps, &qp);
  retireCounters(context, qp);
}

// Takes the QP off the fabric. Its sends and receives vanish, including those that are completed but not yet
// polled.
void unpublishQp(Qp& qp) {
  {
    std::lock_guard sends(qp.sq_lock);
    progressRemove(qp);
    emptyInbox(qp);
    qp.parked.clear();
    qp.held.clear();
    ResponderGuard guard(*qp.fabric, *qp.record);
    ++qp.record->epoch;
    qp.record->qp_num.store(0, std::memory_order_release);
    qp.record->state.store(IBV_QPS_RESET, std::memory_order_release);
    qp.record->rq_head = qp.record->rq_tail.load(std::memory_order_relaxed);
  }
  voidCompletions(qp.qp_base.send_cq, qp.index);
  voidCompletions(qp.qp_base.recv_cq, qp.index);
}

// Frees the record and the ring.
void freeQp(Qp& qp) {
  const uint64_t ring = qp.record->rq;
  const uint64_t bytes = ringBytes(*qp.record);
  releaseQp(*qp.fabric, qp.index);
  releasePages(*qp.fabric, ring, bytes);
}

// The live packet sequence numbers. The caller holds sq_lock.
void queryPsns(const Qp& qp, ibv_qp_attr* attr) {
  uint64_t sent = qp.sent_packets;
  if (qp.wait.reason != Wait::Reason::kNone) sent += packetsOf(qp, qp.parked.front().work.length);
  attr->sq_psn = nextPsn(qp.attr.sq_psn, sent);
  ResponderGuard guard(*qp.fabric, *qp.record);
  attr->rq_psn = nextPsn(qp.attr.rq_psn, qp.record->received_packets);
}

void destroy(Qp& qp, bool await_acknowledgements) {
  ibv_qp& base = qp.qp_base;
  Context& context = as<Context>(base.context);
  if (qp.iwarp) removeIwarp(qp);
  forgetQp(context, qp);
  if (!qp.fabric->forgotten) {
    unpublishQp(qp);
    dropEvents(*qp.fabric, context.index, EventOf::kQp, qp.index);
    if (await_acknowledgements)
      waitForAcknowledgements(base.mutex, base.cond, qp.events_read, base.events_completed);
    freeQp(qp);
  }
  pthread_cond_destroy(&base.cond);
  pthread_mutex_destroy(&base.mutex);
  countUsers(qp, -1);
  delete &qp;
}

}  // namespace

Qp::~Qp() = default;

ibv_qp* createQp(ibv_pd* pd, ibv_qp_init_attr* init) { return makeQp(pd, *init); }

ibv_qp* makeQp(ibv_pd* base, ibv_qp_init_attr& init) {
  Context& context = as<Context>(base->context);
  if (verbFails(context, Verb::kCreateQp)) return nullptr;
  std::lock_guard lock(context.objects);
  if (const int error = checkInit(context, init); error != 0) {
    errno = error;
    return nullptr;
  }
  if (init.srq != nullptr) init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
  auto qp = std::make_unique<Qp>();
  qp->qp_base.context = base->context;
  qp->qp_base.qp_context = init.qp_context;
  qp->qp_base.pd = base;
  qp->qp_base.send_cq = init.send_cq;
  qp->qp_base.recv_cq = init.recv_cq;
  qp->qp_base.srq = init.srq;
  qp->qp_base.state = IBV_QPS_RESET;
  qp->qp_base.qp_type = init.qp_type;
  qp->fabric = context.fabric;
  qp->owner = &context;
  qp->send_cq_record = as<Cq>(init.send_cq).record;
  qp->pd_id = as<Pd>(base).id;
  qp->signal_all = init.sq_sig_all != 0;
  qp->cap = init.cap;
  qp->special = init.qp_type == IBV_QPT_RC ? 0 : uint32_t{kSpecialType};
  qp->max_message_bytes = context.config_device->config.max_message_bytes;
  qp->atomics = context.config_device->config.atomics;
  offerEce(*qp);
  qp->iwarp = context.config_device->config.iwarp();
  if (qp->iwarp) qp->special |= kSpecialIwarp;
  qp->engine = context.config_device->config.engine;
  if (context.config_device->config.adversarial) qp->special |= kSpecialPlacement;
  // Now, because a queue pair that others know of must get into the lists.
  IwarpPlace iwarp_place;
  if (qp->iwarp) iwarp_place = makeIwarpPlace();
  if (context.qps.size() == context.qps.capacity()) context.qps.reserve(2 * context.qps.size() + 8);
  if (const int error = publishQp(*qp); error != 0) {
    errno = error;
    return nullptr;
  }
  qp->qp_base.handle = qp->index;
  pthread_mutex_init(&qp->qp_base.mutex, nullptr);
  pthread_cond_init(&qp->qp_base.cond, nullptr);
  qp->random = Random(context.config_device->seed ^ (uint64_t{qp->index} << 32));
  countUsers(*qp, 1);
  context.qps.push_back(qp.get());
  if (qp->iwarp) addIwarp(*qp, std::move(iwarp_place));
  return &qp.release()->qp_base;
}

int destroyQp(ibv_qp* base) {
  if (const int injected = verbFault(as<Context>(base->context), Verb::kDestroyQp, as<Qp>(base).record);
      injected != 0)
    return injected;
  destroy(as<Qp>(base), true);
  return 0;
}

void discardQp(Qp& qp) { destroy(qp, false); }

int queryQp(ibv_qp* base, ibv_qp_attr* attr, int, ibv_qp_init_attr* init_attr) {
  Qp& qp = as<Qp>(base);
  if (const int injected = verbFault(as<Context>(base->context), Verb::kQueryQp, qp.record); injected != 0)
    return injected;
  std::lock_guard lock(qp.sq_lock);
  qp.qp_base.state = qp.currentState();
  *attr = qp.attr;
  attr->qp_state = attr->cur_qp_state = qp.qp_base.state;
  if (base->qp_type == IBV_QPT_RC && !qp.iwarp) queryPsns(qp, attr);
  attr->path_mig_state = IBV_MIG_MIGRATED;
  attr->cap = qp.cap;
  attr->sq_draining = qp.draining ? 1 : 0;
  *init_attr = {};
  // Its owner may change it meanwhile.
  init_attr->qp_context = std::atomic_ref(qp.qp_base.qp_context).load(std::memory_order_relaxed);
  init_attr->send_cq = qp.qp_base.send_cq;
  init_attr->recv_cq = qp.qp_base.recv_cq;
  init_attr->cap = qp.cap;
  init_attr->srq = qp.qp_base.srq;
  init_attr->qp_type = qp.qp_base.qp_type;
  init_attr->sq_sig_all = qp.signal_all ? 1 : 0;
  return 0;
}

}  // namespace railwise::softdev
