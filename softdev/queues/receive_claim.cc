#include "softdev/queues/receive_claim.h"

#include <cstring>

#include "softdev/fabric/events.h"

namespace railwise::softdev {
namespace {

// Called after the lock was taken from a dead owner: if that had taken a receive off the SRQ, the receive
// becomes one of the QP.
void recoverClaim(const Fabric& fabric, SrqRecord& srq) {
  const uint32_t index = srq.claim_qp.load(std::memory_order_relaxed);
  QpRecord& qp = fabric.segment->qps[index];
  const bool taken = index != 0 && srq.head.load(std::memory_order_relaxed) == srq.claim_head + 1;
  if (taken && qp.srq == static_cast<uint32_t>(&srq - fabric.segment->srqs))
    qp.rq_tail.store(srq.claim_tail, std::memory_order_seq_cst);
  srq.claim_qp.store(0, std::memory_order_release);
}

}  // namespace

void checkLimit(const Fabric& fabric, SrqRecord& srq) {
  const uint64_t left = srq.tail.load(std::memory_order_seq_cst) - srq.head.load(std::memory_order_relaxed);
  if (left >= srq.limit.load(std::memory_order_relaxed)) return;
  srq.limit.store(0, std::memory_order_relaxed);
  raiseEvent(fabric, srq.context, IBV_EVENT_SRQ_LIMIT_REACHED,
             static_cast<uint32_t>(&srq - fabric.segment->srqs));
}

SrqGuard::SrqGuard(const Fabric& fabric, SrqRecord& srq) : srq_(srq) {
  if (srq.lock.lock(fabric.self)) recoverClaim(fabric, srq);
}

bool claimReceive(const Fabric& fabric, QpRecord& qp, uint64_t enough) {
  Segment& segment = *fabric.segment;
  SrqRecord& srq = segment.srqs[qp.srq];
  const SrqGuard guard(fabric, srq);
  const uint64_t tail = qp.rq_tail.load(std::memory_order_relaxed);
  const uint64_t head = srq.head.load(std::memory_order_relaxed);
  if (tail - qp.rq_head > enough) return true;
  if (tail - qp.rq_head == kClaimSlots || head == srq.tail.load(std::memory_order_seq_cst)) return false;
  const ReceiveEntry& entry = receiveAt(segment, srq, head);
  std::memcpy(&receiveAt(segment, qp, tail), &entry, strideOf(entry.num_sge));
  srq.claim_head = head;
  srq.claim_tail = tail + 1;
  srq.claim_qp.store(static_cast<uint32_t>(&qp - segment.qps), std::memory_order_release);
  srq.head.store(head + 1, std::memory_order_release);
  qp.rq_tail.store(tail + 1, std::memory_order_seq_cst);
  srq.claim_qp.store(0, std::memory_order_release);
  checkLimit(fabric, srq);
  return true;
}

}  // namespace railwise::softdev
