// Sends that fail and sends that wait (requester.h).
#include <algorithm>
#include <utility>

#include "softdev/engine/atomics.h"
#include "softdev/engine/datagram.h"
#include "softdev/engine/injector.h"
#include "softdev/engine/packets.h"
#include "softdev/engine/progress.h"
#include "softdev/engine/rnr_timer.h"
#include "softdev/fabric/events.h"
#include "softdev/fabric/monotonic.h"
#include "softdev/queues/responder.h"

namespace railwise::softdev {
namespace {

void startWait(Qp& qp, Wait::Reason reason) {
  qp.wait.reason = reason;
  Clock::duration patience{};
  if (reason == Wait::Reason::kNoReceive) {
    qp.wait.forever = qp.attr.rnr_retry == kForeverRnr;
    patience = rnrTimer(qp.peer.record->min_rnr_timer.load(std::memory_order_relaxed)) * qp.attr.rnr_retry;
  } else {
    qp.wait.forever = qp.attr.timeout == 0;
    patience =
        std::chrono::nanoseconds(4096) * (int64_t{1} << (qp.attr.timeout & 31)) * (qp.attr.retry_cnt + 1);
  }
  qp.wait.deadline = Clock::now() + patience;
}

// Notes that the first parked send still waits. True when its time is over.
bool waitedEnough(Qp& qp, Verdict verdict) {
  const auto reason = verdict == Verdict::kNoReceive ? Wait::Reason::kNoReceive : Wait::Reason::kUnreachable;
  if (qp.wait.reason != reason) startWait(qp, reason);
  return !qp.wait.forever && Clock::now() >= qp.wait.deadline;
}

ibv_wc_status statusOfWait(Verdict verdict) {
  return verdict == Verdict::kNoReceive ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_RETRY_EXC_ERR;
}

void popParked(Qp& qp) {
  qp.parked.pop_front();
  qp.wait.reason = Wait::Reason::kNone;
}

bool isPaced(const Qp& qp) { return (qp.special & kSpecialTime) != 0; }

// A send that waits for an answer begins when the answer comes, and so do the sends behind it: a NIC goes on
// by itself, whoever polls when.
void beginInTime(Qp& qp, const ParkedWork& parked) {
  if (!isPaced(qp)) return;
  const bool fetching = parked.work.opcode == IBV_WR_RDMA_READ || isAtomic(parked.work.opcode);
  const uint64_t opened =
      fetching && qp.attr.max_rd_atomic != 0 ? qp.fetches.opensAt(qp.attr.max_rd_atomic) : 0;
  qp.begin_ns = std::min(std::max({parked.parked_ns, qp.resumed_ns, opened}), monotonicNs());
}

// The first parked send waits for the peer or a fault: it begins now at the earliest.
void stallInTime(Qp& qp) {
  if (isPaced(qp)) qp.parked.front().parked_ns = monotonicNs();
}

// Tries the first parked send once. False if it must wait longer.
bool retryFirst(Qp& qp) {
  const Work& work = qp.parked.front().work;
  Injection& injection = qp.parked.front().injection;
  if (!injection.judged && (faultsArmed(*qp.fabric) & kArmedWork) != 0) {
    judge(qp, work, nullptr, &injection);
    // A rule has put the QP into ERR, so everything is flushed.
    if (qp.currentState() == IBV_QPS_ERR) return true;
  }
  if (injection.waits) stallInTime(qp);
  if (heldBack(injection)) return false;
  beginInTime(qp, qp.parked.front());
  Chain chain(qp);
  const Outcome outcome = execute(qp, chain, work, injection);
  chain.close();  // now, because the batch has pointers into the parked copy
  const uint64_t begun = std::exchange(qp.begin_ns, 0);
  if (outcome.verdict == Verdict::kWindowFull) return false;
  const bool waits = outcome.verdict == Verdict::kNoReceive || outcome.verdict == Verdict::kUnreachable;
  if (waits) {
    stallInTime(qp);
  } else {
    qp.resumed_ns = begun;
  }
  if (waits && !waitedEnough(qp, outcome.verdict)) return false;
  if (outcome.verdict == Verdict::kFailed || waits)
    failSend(qp, work, waits ? statusOfWait(outcome.verdict) : outcome.status);
  popParked(qp);
  return true;
}

}  // namespace

void failSend(Qp& qp, const Work& work, ibv_wc_status status) {
  countUnexecuted(qp, work, status);
  completeSend(qp, work, status);
  ResponderGuard guard(*qp.fabric, *qp.record);
  enterError(*qp.fabric, *qp.record);
}

void flushParked(Qp& qp) {
  if (qp.engine) emptyInbox(qp);
  while (!qp.parked.empty()) {
    if (qp.wait.reason != Wait::Reason::kNone)  // it had left
      countUnexecuted(qp, qp.parked.front().work, IBV_WC_RETRY_EXC_ERR);
    completeSend(qp, qp.parked.front().work, IBV_WC_WR_FLUSH_ERR);
    popParked(qp);
  }
}

void emptyInbox(Qp& qp) {
  std::lock_guard lock(qp.inbox_lock);
  const uint64_t now = isPaced(qp) ? monotonicNs() : 0;
  for (; !qp.inbox.empty(); qp.inbox.pop_front()) {
    qp.parked.push_back(std::move(qp.inbox.front()));
    qp.parked.back().parked_ns = now;
  }
}

void retryParked(Qp& qp) {
  if (qp.engine) emptyInbox(qp);
  while (!qp.parked.empty()) {
    const ibv_qp_state state = qp.currentState();
    if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) return flushParked(qp);
    if (state == IBV_QPS_SQD && qp.parked.front().work.retires > qp.drained_at) break;
    if (!retryFirst(qp)) return;
  }
  finishDraining(qp);
}

void finishDraining(Qp& qp) {
  if (!qp.draining || qp.currentState() != IBV_QPS_SQD) return;
  if (!qp.parked.empty() && qp.parked.front().work.retires <= qp.drained_at) return;
  qp.draining = false;
  if (qp.attr.en_sqd_async_notify != 0) raiseQpEvent(*qp.fabric, *qp.record, IBV_EVENT_SQ_DRAINED);
}

// Copies all data that the send needs.
void keep(const Work& work, ParkedWork& parked) {
  parked.work = work;
  parked.sges.assign(work.sges, work.sges + work.num_sge);
  if (work.inlined) {
    parked.payload.resize(work.length);
    uint64_t at = 0;
    for (ibv_sge& sge : parked.sges) {
      const auto* from = reinterpret_cast<const std::byte*>(sge.addr);  // NOLINT: the caller's memory
      std::copy_n(from, sge.length, parked.payload.data() + at);
      sge.addr = reinterpret_cast<uint64_t>(parked.payload.data() + at);
      at += sge.length;
    }
  }
  parked.work.sges = parked.sges.data();
}

void park(Qp& qp, const Work& work, Verdict reason) {
  keep(work, qp.parked.emplace_back());
  if (isPaced(qp)) qp.parked.back().parked_ns = monotonicNs();
  if (qp.parked.size() > 1 || qp.currentState() == IBV_QPS_SQD) return;
  if (reason != Verdict::kDone && reason != Verdict::kWindowFull) (void)waitedEnough(qp, reason);
  progressAdd(qp);
}

void giveToEngine(Qp& qp, const Work& work) { keep(work, qp.inbox.emplace_back()); }

void settle(Qp& qp, Chain& chain, const Work& work, Outcome outcome) {
  chain.close();
  const bool failed = outcome.verdict == Verdict::kFailed;
  if (chain.broken() || (!failed && qp.currentState() == IBV_QPS_ERR))
    return completeSend(qp, work, IBV_WC_WR_FLUSH_ERR);
  if (failed) return failSend(qp, work, outcome.status);
  if (outcome.verdict == Verdict::kNoReceive && qp.attr.rnr_retry == 0)
    return failSend(qp, work, IBV_WC_RNR_RETRY_EXC_ERR);
  park(qp, work, outcome.verdict);
}

}  // namespace railwise::softdev
