#include "softdev/queues/responder.h"

#include <algorithm>

#include "softdev/fabric/events.h"

namespace railwise::softdev {

ibv_wc_status scatterReceive(Segment& segment, const QpRecord& qp, uint64_t skip, uint64_t length,
                             Piece* pieces, int* count, uint32_t* keys) {
  const ReceiveEntry& receive = receiveAt(segment, qp, qp.rq_head + skip);
  const uint32_t pd = qp.srq == 0 ? qp.pd : segment.srqs[qp.srq].pd;
  *count = 0;
  for (uint32_t i = 0; i < receive.num_sge && length > 0; ++i) {
    const Sge& sge = receive.sges()[i];
    if (sge.length == 0) continue;
    Piece& piece = pieces[*count];
    piece.length = std::min<uint64_t>(sge.length, length);
    if (!resolveKey(segment, sge.lkey, pd, sge.address, sge.length, IBV_ACCESS_LOCAL_WRITE, &piece.address))
      return IBV_WC_LOC_PROT_ERR;
    if (keys != nullptr) keys[*count] = sge.lkey;
    length -= piece.length;
    ++*count;
  }
  return length == 0 ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
}

void flushReceives(Fabric& fabric, QpRecord& qp) {
  Arrival flushed;
  flushed.status = IBV_WC_WR_FLUSH_ERR;
  while (receivesPosted(qp) > 0) completeReceive(fabric, qp, flushed);
}

void enterError(Fabric& fabric, QpRecord& qp) {
  ++qp.epoch;
  const uint32_t before = qp.state.exchange(IBV_QPS_ERR, std::memory_order_seq_cst);
  flushReceives(fabric, qp);
  if (qp.srq != 0 && before != IBV_QPS_ERR) raiseQpEvent(fabric, qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

void recoverResponder(Fabric& fabric, QpRecord& qp) {
  if (qp.qp_num.load(std::memory_order_relaxed) == 0) return;
  Segment& segment = *fabric.segment;
  CqRecord& cq = segment.cqs[qp.recv_cq];
  {
    CqGuard guard(fabric, cq);
    const uint32_t index = qpIndexOf(qp.qp_num.load(std::memory_order_relaxed));
    const uint64_t tail = cq.tail.load(std::memory_order_acquire);
    for (uint64_t at = cq.head.load(std::memory_order_acquire); at != tail; ++at) {
      Cqe& cqe = cqeAt(segment, cq, at);
      if (kindOf(cqe) == CqeKind::kReceive && cqe.qp_index == index)
        qp.rq_head = std::max(qp.rq_head, cqe.retires);
    }
    // If the completion is not in the ring any more, it was polled, and polling updates rq_polled before it
    // frees the entry.
    qp.rq_head = std::max(qp.rq_head, qp.rq_polled.load(std::memory_order_acquire));
  }
  if (qp.state.load(std::memory_order_relaxed) == IBV_QPS_ERR) flushReceives(fabric, qp);
}

}  // namespace railwise::softdev
