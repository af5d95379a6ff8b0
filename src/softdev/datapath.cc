#include "softdev/datapath.h"

#include <cerrno>

#include "softdev/express.h"
#include "softdev/injector.h"
#include "softdev/pacing.h"
#include "softdev/progress.h"
#include "softdev/requester.h"
#include "softdev/verb_faults.h"

namespace railwise::softdev {
namespace {

// Sums up the caller's request; a positive errno when it can never be posted.
int describe(const Qp& qp, const ibv_send_wr& wr, Work* work) {
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > qp.cap.max_send_sge) return EINVAL;
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
      work->remote_addr = wr.wr.rdma.remote_addr;
      work->rkey = wr.wr.rdma.rkey;
      break;
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      break;
    default:
      return EINVAL;
  }
  return work->inlined && work->length > qp.cap.max_inline_data ? EINVAL : 0;
}

void count(WorkCounters& counters, const Work& work) {
  switch (work.opcode) {
    case IBV_WR_RDMA_WRITE:
      counters.writes.add(1);
      break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      counters.writes_with_imm.add(1);
      break;
    case IBV_WR_RDMA_READ:
      counters.reads.add(1);
      break;
    default:
      counters.sends.add(1);
      break;
  }
  counters.sges.add(static_cast<uint64_t>(work.num_sge));
  counters.bytes.add(work.length);
  if (work.inlined) counters.inlined.add(1);
  if (work.signalled) counters.signalled.add(1);
}

void submit(Qp& qp, Chain& chain, const Work& work) {
  if (qp.currentState() == IBV_QPS_ERR) [[unlikely]] {
    chain.close();
    flushParked(qp);
    completeSend(qp, work, IBV_WC_WR_FLUSH_ERR);
  } else if (!qp.parked.empty()) [[unlikely]] {
    park(qp, work, Verdict::kNoReceive);  // not the first: it only queues up
  } else if ((faultsArmed(*qp.fabric) & kArmedWork) != 0) [[unlikely]] {
    submitFaulty(qp, chain, work);
  } else if (const Outcome outcome = chain.run(work); outcome.verdict != Verdict::kDone) [[unlikely]] {
    settle(qp, chain, work, outcome);
  }
}

// Checks and counts a request, and gives it its slot in the send queue: 0 or a positive errno.
int accept(Qp& qp, const ibv_send_wr& wr, Work* work) {
  const ibv_qp_state state = qp.currentState();
  if (state != IBV_QPS_RTS && state != IBV_QPS_ERR) return EINVAL;
  if (state == IBV_QPS_ERR && qp.owner->record->fatal.load(std::memory_order_relaxed) != 0) return EIO;
  if (const int error = describe(qp, wr, work); error != 0) return error;
  if (qp.sq_posted - qp.record->sq_polled.load(std::memory_order_acquire) >= qp.cap.max_send_wr)
    return ENOMEM;
  work->retires = ++qp.sq_posted;
  count(qp.record->counters, *work);
  return 0;
}

// Engine mode: the requests are copied, and the engine's thread executes them.
[[gnu::noinline]] int postToEngine(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  int error = 0;
  bool tell = false;
  {
    std::lock_guard lock(qp.inbox_lock);
    qp.record->counters.posts.add(1);
    const bool was_empty = qp.inbox.empty();
    for (; wr != nullptr; wr = wr->next) {
      Work work;
      error = accept(qp, *wr, &work);
      if (error != 0) {
        *bad_wr = wr;
        break;
      }
      giveToEngine(qp, work);
    }
    tell = was_empty && !qp.inbox.empty();
  }
  if (tell) progressAdd(qp);
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

// Gives one completion to the caller and its queue slots back; false for one whose QP is gone.
bool take(Segment& segment, const Cqe& cqe, ibv_wc* wc) {
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

// The long way, for what Express does not serve: it knows every opcode, every error, and other processes.
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

// Polling where completions become ready at a time of their own: those that are ready are taken, also from
// behind others of other queue pairs. Returns the new head.
[[gnu::noinline]] uint64_t pollTimed(Cq& cq, uint64_t head, uint64_t tail, int num_entries, ibv_wc* wc,
                                     int* taken) {
  Segment& segment = *cq.fabric->segment;
  const uint64_t now = monotonicNs();
  for (uint64_t at = head; at != tail && *taken < num_entries; ++at) {
    Cqe& cqe = cqeAt(segment, *cq.record, at);
    const bool ready = cqe.ready_ns <= now;
    if (ready && take(segment, cqe, wc + *taken)) {
      ++*taken;
      cqe.kind = CqeKind::kVoid;
    }
    if (at == head && cqe.kind == CqeKind::kVoid) ++head;
  }
  return head;
}

}  // namespace

int postSend(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  Qp& qp = as<Qp>(base);
  const uint32_t armed = faultsArmed(*qp.fabric);
  if (armed != 0) [[unlikely]] {
    if (const int error = verbFault(*qp.owner, Verb::kPostSend, qp.record); error != 0) {
      *bad_wr = wr;
      return error;
    }
  }
  if (qp.engine) [[unlikely]]
    return postToEngine(qp, wr, bad_wr);
  std::lock_guard lock(qp.sq_lock);
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

int postRecv(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
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
    // Ordered before the look at the state below: either we see ERR, or who sets ERR sees these receives.
    qp.record->rq_tail.store(position, std::memory_order_seq_cst);
  }
  if (qp.currentState() == IBV_QPS_ERR) [[unlikely]] {
    SharedLockGuard guard(qp.record->responder, qp.fabric->self);
    if (qp.currentState() == IBV_QPS_ERR) flushReceives(*qp.fabric, *qp.record);
  }
  return error;
}

int pollCq(ibv_cq* base, int num_entries, ibv_wc* wc) {
  Cq& cq = as<Cq>(base);
  if (cq.parked.load(std::memory_order_relaxed) != 0) [[unlikely]]
    retryParkedOn(cq);
  CqRecord& record = *cq.record;
  if (record.head.load(std::memory_order_relaxed) == record.tail.load(std::memory_order_acquire)) {
    record.counters.empty_polls.fetch_add(1, std::memory_order_relaxed);
    if (const int error = verbFault(as<Context>(cq.context), Verb::kPollCq); error != 0) [[unlikely]]
      return -error;
    return record.overflowed.load(std::memory_order_relaxed) == 0 ? 0 : -EIO;
  }
  std::lock_guard lock(cq.poll_lock);
  uint64_t head = record.head.load(std::memory_order_relaxed);
  const uint64_t tail = record.tail.load(std::memory_order_acquire);
  int taken = 0;
  for (; head != tail && taken < num_entries; ++head) {
    const Cqe& cqe = cqeAt(*cq.fabric->segment, record, head);
    if (cqe.ready_ns != 0) [[unlikely]] {
      head = pollTimed(cq, head, tail, num_entries, wc, &taken);
      break;
    }
    if (take(*cq.fabric->segment, cqe, wc + taken)) ++taken;
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

}  // namespace railwise::softdev
