#include "softdev/engine/datapath.h"

#include <cerrno>
#include <new>

#include "softdev/engine/datagram.h"
#include "softdev/engine/express.h"
#include "softdev/engine/injector.h"
#include "softdev/engine/progress.h"
#include "softdev/engine/requester.h"
#include "softdev/fabric/monotonic.h"
#include "softdev/faults/verb_faults.h"
#include "softdev/memory/agent.h"
#include "softdev/queues/responder.h"

namespace railwise::softdev {
namespace {

// Does an iWARP device support this request?
bool iwarpSends(const ibv_send_wr& wr) {
  return wr.opcode == IBV_WR_RDMA_WRITE || wr.opcode == IBV_WR_SEND ||
         (wr.opcode == IBV_WR_RDMA_READ && wr.num_sge <= 1);
}

// In SQD requests wait. In SQE and ERR they are flushed.
constexpr bool postable(ibv_qp_state state) {
  return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE || state == IBV_QPS_ERR;
}

// Converts the caller's request to `work`. A positive errno if the request can never be posted.
int describe(const Qp& qp, const ibv_send_wr& wr, Work* work) {
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > qp.cap.max_send_sge) return EINVAL;
  if (qp.qp_base.qp_type == IBV_QPT_UD && wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM)
    return EINVAL;
  if (qp.iwarp && !iwarpSends(wr)) return EINVAL;
  work->wr_id = wr.wr_id;
  work->sges = wr.sg_list;
  work->num_sge = wr.num_sge;
  work->opcode = wr.opcode;
  work->signalled = qp.signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  work->inlined = (wr.send_flags & IBV_SEND_INLINE) != 0;
  work->solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
  work->imm_data = wr.imm_data;
  work->length = 0;
  for (int i = 0; i < wr.num_sge; ++i) work->length += wr.sg_list[i].length;
  switch (wr.opcode) {
    case IBV_WR_RDMA_READ:
      if (work->inlined) return EINVAL;
      [[fallthrough]];
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_ATOMIC_WRITE:
      work->remote_addr = wr.wr.rdma.remote_addr;
      work->rkey = wr.wr.rdma.rkey;
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      if (work->inlined || !qp.atomics) return EINVAL;
      work->remote_addr = wr.wr.atomic.remote_addr;
      work->rkey = wr.wr.atomic.rkey;
      work->compare_add = wr.wr.atomic.compare_add;
      work->swap = wr.wr.atomic.swap;
      break;
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      if (qp.qp_base.qp_type == IBV_QPT_UD) {
        if (wr.wr.ud.ah == nullptr) return EINVAL;
        work->ah = static_cast<const Ah*>(wr.wr.ud.ah);
        work->remote_qpn = wr.wr.ud.remote_qpn;
        work->remote_qkey = wr.wr.ud.remote_qkey;
      }
      break;
    default:
      return EINVAL;
  }
  if (wr.opcode == IBV_WR_ATOMIC_WRITE)  // its eight bytes are part of the request
    return work->length == sizeof(uint64_t) && qp.atomics ? 0 : EINVAL;
  return work->inlined && work->length > qp.cap.max_inline_data ? EINVAL : 0;
}

void count(WorkCounters& counters, const Work& work) {
  switch (work.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_ATOMIC_WRITE:
      counters.writes.add(1);
      break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      counters.writes_with_imm.add(1);
      break;
    case IBV_WR_RDMA_READ:
      counters.reads.add(1);
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      counters.atomics.add(1);
      break;
    default:
      counters.sends.add(1);
      break;
  }
  counters.more_sges.add(static_cast<uint64_t>(work.num_sge) - 1);
  counters.bytes.add(work.length);
  if (work.inlined) counters.inlined.add(1);
  if (work.signalled) counters.signalled.add(1);
}

void submit(Qp& qp, Chain& chain, const Work& work) {
  const ibv_qp_state state = qp.currentState();
  if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) [[unlikely]] {
    chain.close();
    flushParked(qp);
    completeSend(qp, work, IBV_WC_WR_FLUSH_ERR);
  } else if (!qp.parked.empty() || state == IBV_QPS_SQD) [[unlikely]] {
    park(qp, work, Verdict::kNoReceive);  // other sends or the state SQD come first, so the send only queues
  } else if ((faultsArmed(*qp.fabric) & kArmedWork) != 0) [[unlikely]] {
    submitFaulty(qp, chain, work);
  } else if ((qp.special & kSpecialType) != 0) {
    sendDatagram(qp, work);
  } else if (const Outcome outcome = chain.run(work); outcome.verdict != Verdict::kDone) [[unlikely]] {
    settle(qp, chain, work, outcome);
  }
}

// Checks and counts a request, and gives it its slot in the send queue. Returns 0 or a positive errno.
int accept(Qp& qp, const ibv_send_wr& wr, Work* work) {
  const ibv_qp_state state = qp.currentState();
  if (!postable(state)) return EINVAL;
  if (state == IBV_QPS_ERR && qp.owner->record->fatal.load(std::memory_order_relaxed) != 0) return EIO;
  if (const int error = describe(qp, wr, work); error != 0) return error;
  if (qp.sq_posted - qp.record->sq_polled.load(std::memory_order_acquire) >= qp.cap.max_send_wr)
    return ENOMEM;
  work->retires = ++qp.sq_posted;
  count(qp.record->counters, *work);
  return 0;
}

// Engine mode: copies the requests; the engine's thread executes them. The caller holds inbox_lock. If *tell
// becomes true, the caller must call progressAdd() after it has released the lock.
[[gnu::noinline]] int postToEngine(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr, bool* tell) {
  qp.record->counters.posts.add(1);
  const bool was_empty = qp.inbox.empty();
  int error = 0;
  for (; wr != nullptr; wr = wr->next) {
    Work work;
    error = accept(qp, *wr, &work);
    if (error != 0) {
      *bad_wr = wr;
      break;
    }
    giveToEngine(qp, work);
  }
  *tell = was_empty && !qp.inbox.empty();
  return error;
}

// Writes one receive at `position` of the ring.
int postReceive(Qp& qp, const ibv_recv_wr& wr, uint64_t position) {
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > qp.cap.max_recv_sge) return EINVAL;
  if (position - qp.record->rq_polled.load(std::memory_order_acquire) >= qp.cap.max_recv_wr) return ENOMEM;
  ReceiveEntry& entry = receiveAt(*qp.fabric->segment, *qp.record, position);
  entry.wr_id = wr.wr_id;
  entry.num_sge = static_cast<uint32_t>(wr.num_sge);
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    entry.sges()[i] = {sge.addr, sge.length, sge.lkey};
  }
  return 0;
}

// Passes one completion to the caller and frees its queue slots. False if the QP of the completion is gone.
[[gnu::always_inline]] inline bool take(Segment& segment, const Cqe& cqe, ibv_wc* wc) {
  if (cqe.kind == CqeKind::kVoid) return false;
  QpRecord& qp = segment.qps[cqe.qp_index];
  (cqe.kind == CqeKind::kReceive ? qp.rq_polled : qp.sq_polled).store(cqe.retires, std::memory_order_release);
  wc->wr_id = cqe.wr_id;
  wc->status = static_cast<ibv_wc_status>(cqe.status);
  wc->opcode = static_cast<ibv_wc_opcode>(cqe.opcode);
  wc->vendor_err = 0;
  wc->byte_len = cqe.byte_len;
  wc->imm_data = cqe.imm_data;
  wc->qp_num = cqe.qp_num;
  wc->src_qp = cqe.src_qp;
  wc->wc_flags = cqe.wc_flags & ~uint32_t{kSolicited};
  wc->pkey_index = 0;
  wc->slid = cqe.slid;
  wc->sl = 0;
  wc->dlid_path_bits = 0;
  return true;
}

// Counts a poll that found nothing. Returns 0, or -EIO if the queue has overflowed.
int foundNothing(CqRecord& record) {
  record.counters.empty_polls.fetch_add(1, std::memory_order_relaxed);
  return record.overflowed.load(std::memory_order_relaxed) == 0 ? 0 : -EIO;
}

// Completions that were taken out of turn leave gaps, which would count as used entries. So this moves the
// waiting completions up.
uint64_t closeGaps(Cq& cq, uint64_t head) {
  Segment& segment = *cq.fabric->segment;
  CqRecord& record = *cq.record;
  SharedLockGuard guard(record.lock, cq.fabric->self);
  const uint64_t tail = record.tail.load(std::memory_order_relaxed);
  uint64_t to = tail;
  for (uint64_t at = tail; at-- > head;) {
    if (cqeAt(segment, record, at).kind == CqeKind::kVoid) continue;
    --to;
    if (to != at) cqeAt(segment, record, to) = cqeAt(segment, record, at);
  }
  return to;
}

// For a CQ whose completions may be polled only from a certain time on: takes those that are ready, also from
// behind completions of other queue pairs that are not. Returns the new head.
template <typename Give>
[[gnu::noinline]] uint64_t takeTimed(Cq& cq, uint64_t head, uint64_t tail, int most, const Give& give,
                                     int* taken) {
  const uint64_t now = monotonicNs();
  for (uint64_t at = head; at != tail && *taken < most; ++at) {
    Cqe& cqe = cqeAt(*cq.fabric->segment, *cq.record, at);
    if (cqe.ready_ns <= now && give(cqe, *taken)) {
      ++*taken;
      makeVoid(cqe);
    }
    if (at == head && cqe.kind == CqeKind::kVoid) ++head;
  }
  return closeGaps(cq, head);
}

// Passes up to `most` completions to give(cqe, number taken before), which returns false for a void
// completion.
template <typename Give>
[[gnu::always_inline]] inline int takeCompletions(Cq& cq, int most, const Give& give) {
  CqRecord& record = *cq.record;
  uint64_t head = record.head.load(std::memory_order_relaxed);
  const uint64_t tail = record.tail.load(std::memory_order_acquire);
  int taken = 0;
  for (; head != tail && taken < most; ++head) {
    const Cqe& cqe = cqeAt(*cq.fabric->segment, record, head);
    if (cqe.ready_ns != 0) [[unlikely]] {
      head = takeTimed(cq, head, tail, most, give, &taken);
      break;
    }
    if (give(cqe, taken)) ++taken;
  }
  record.head.store(head, std::memory_order_release);
  if (taken == 0) {
    record.counters.empty_polls.fetch_add(1, std::memory_order_relaxed);
  } else {
    record.counters.polls.add(1);
    record.counters.completions.add(static_cast<uint64_t>(taken));
  }
  return taken;
}

// The slow path, for sends that Express does not handle: it handles every opcode, every error, and other
// processes.
[[gnu::noinline]] int postLong(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  Chain chain(qp);
  for (; wr != nullptr; wr = wr->next) {
    Work work;
    if (const int error = accept(qp, *wr, &work); error != 0) {
      *bad_wr = wr;
      return error;
    }
    submit(qp, chain, work);
  }
  return 0;
}

[[gnu::always_inline]] inline int postHere(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr, uint32_t armed) {
  qp.record->counters.posts.add(1);
  if (!qp.parked.empty()) [[unlikely]] {
    retryParked(qp);
    if (qp.parked.empty()) progressRemove(qp);
  }
  if (armed == 0 && Express::serves(qp)) [[likely]] {
    Express express(qp);
    if (express.open()) [[likely]] {
      while (wr != nullptr && express.send(*wr)) wr = wr->next;
    }
  }
  if (wr == nullptr) [[likely]]
    return 0;
  return postLong(qp, wr, bad_wr);
}

}  // namespace

int postSend(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad_wr) try {
  Qp& qp = as<Qp>(base);
  if (const int error = postFault(qp); error != 0) [[unlikely]] {
    *bad_wr = wr;
    return error;
  }
  SendLock lock(qp);
  return lock.post(wr, bad_wr);
} catch (const std::bad_alloc&) {  // no exception leaves the device (verbs/border.h)
  *bad_wr = wr;
  return ENOMEM;
}

int postFault(const Qp& qp) {
  if (faultsArmed(*qp.fabric) == 0) [[likely]]
    return 0;
  return verbFault(*qp.owner, Verb::kPostSend, qp.record);
}

int SendLock::post(ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  if (qp_.engine) [[unlikely]]
    return postToEngine(qp_, wr, bad_wr, &tell_);
  return postHere(qp_, wr, bad_wr, faultsArmed(*qp_.fabric));
}

int checkSends(const Qp& qp, const ibv_send_wr* wr) {
  const ibv_qp_state state = qp.currentState();
  if (!postable(state)) return EINVAL;
  uint64_t posted = qp.sq_posted - qp.record->sq_polled.load(std::memory_order_acquire);
  for (; wr != nullptr; wr = wr->next) {
    Work work;
    if (const int error = describe(qp, *wr, &work); error != 0) return error;
    if (posted++ >= qp.cap.max_send_wr) return ENOMEM;
  }
  return 0;
}

int postRecv(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) try {
  Qp& qp = as<Qp>(base);
  if (faultsArmed(*qp.fabric) != 0) [[unlikely]] {
    if (const int injected = verbFault(*qp.owner, Verb::kPostRecv, qp.record); injected != 0) {
      *bad_wr = wr;
      return injected;
    }
  }
  int error = 0;
  {
    std::lock_guard lock(qp.rq_lock);
    const uint64_t first = qp.record->rq_tail.load(std::memory_order_relaxed);
    uint64_t position = first;
    if (qp.currentState() == IBV_QPS_RESET) error = EINVAL;
    for (; wr != nullptr && error == 0; wr = wr->next) {
      error = postReceive(qp, *wr, position);
      if (error != 0) break;
      ++position;
    }
    if (error != 0) *bad_wr = wr;
    qp.record->counters.receive_posts.add(1);
    qp.record->counters.receives.add(position - first);
    // Ordered before the load of the state below: either we see ERR, or the thread that sets ERR sees these
    // receives.
    qp.record->rq_tail.store(position, std::memory_order_seq_cst);
  }
  if (qp.currentState() == IBV_QPS_ERR) [[unlikely]] {
    ResponderGuard guard(*qp.fabric, *qp.record);
    if (qp.currentState() == IBV_QPS_ERR) flushReceives(*qp.fabric, *qp.record);
  }
  return error;
} catch (const std::bad_alloc&) {  // no exception leaves the device (verbs/border.h)
  *bad_wr = wr;
  return ENOMEM;
}

void retryParkedFor(Cq& cq) {
  if (cq.parked.load(std::memory_order_relaxed) != 0) [[unlikely]]
    retryParkedOn(cq);
}

// A hint: takeCompletions() looks at the head again under poll_lock.
bool isEmpty(const CqRecord& record) {
  return record.head.load(std::memory_order_relaxed) == record.tail.load(std::memory_order_acquire);
}

int pollEmpty(Cq& cq) {
  const int nothing = foundNothing(*cq.record);
  heedAgentWish(*cq.fabric);
  const int error = verbFault(as<Context>(cq.context), Verb::kPollCq);
  return error != 0 ? -error : nothing;
}

int pollCq(ibv_cq* base, int num_entries, ibv_wc* wc) try {
  Cq& cq = as<Cq>(base);
  retryParkedFor(cq);
  if (isEmpty(*cq.record)) return pollEmpty(cq);
  std::lock_guard lock(cq.poll_lock);
  Segment& segment = *cq.fabric->segment;
  return takeCompletions(cq, num_entries,
                         [&](const Cqe& cqe, int taken) { return take(segment, cqe, wc + taken); });
} catch (const std::bad_alloc&) {  // no exception leaves the device (verbs/border.h)
  return -ENOMEM;
}

int pollLocked(Cq& cq, int most, Polled* polled) {
  if (isEmpty(*cq.record)) return foundNothing(*cq.record);
  Segment& segment = *cq.fabric->segment;
  return takeCompletions(cq, most, [&](const Cqe& cqe, int taken) {
    polled[taken].stamp_ns = cqe.stamp_ns;
    return take(segment, cqe, &polled[taken].wc);
  });
}

}  // namespace railwise::softdev
