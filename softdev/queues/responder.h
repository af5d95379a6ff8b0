// The receiving half of a queue pair. A process that sends to the queue pair runs it, or its owner does. The
// caller of every function holds the QP's responder lock.
#pragma once

#include "softdev/memory/keys.h"
#include "softdev/queues/completion_ring.h"

namespace railwise::softdev {

inline uint64_t receivesPosted(const QpRecord& qp) {
  return qp.rq_tail.load(std::memory_order_seq_cst) - qp.rq_head;
}

// The completion of a receive, as its sender defines it.
struct Arrival {
  ibv_wc_status status = IBV_WC_SUCCESS;
  ibv_wc_opcode opcode = IBV_WC_RECV;
  uint32_t byte_len = 0;
  bool has_imm = false;
  bool solicited = false;
  bool has_grh = false;
  uint32_t imm_data = 0;
  uint32_t src_qp = 0;
  uint16_t slid = 0;
};

// Completes the oldest posted receive.
[[gnu::always_inline]] inline void completeReceive(Fabric& fabric, QpRecord& qp, const Arrival& arrival) {
  Segment& segment = *fabric.segment;
  const uint64_t head = qp.rq_head;
  const uint32_t qp_num = qp.qp_num.load(std::memory_order_relaxed);
  const uint64_t wr_id = receiveAt(segment, qp, head).wr_id;
  pushCompletion(fabric, segment.cqs[qp.recv_cq], [&](Cqe& cqe) {
    cqe.wr_id = wr_id;
    cqe.retires = head + 1;
    cqe.status = static_cast<uint8_t>(arrival.status);
    cqe.opcode = static_cast<uint8_t>(arrival.opcode);
    cqe.byte_len = arrival.byte_len;
    cqe.imm_data = arrival.imm_data;
    cqe.qp_num = qp_num;
    cqe.src_qp = arrival.src_qp;
    cqe.wc_flags =
        static_cast<uint8_t>((arrival.has_imm ? IBV_WC_WITH_IMM : 0) | (arrival.has_grh ? IBV_WC_GRH : 0) |
                             (arrival.solicited ? kSolicited : 0));
    cqe.ready_ns = qp.last_ready_ns;
    cqe.qp_index = static_cast<uint16_t>(qpIndexOf(qp_num));
    cqe.slid = arrival.slid;
    cqe.kind = CqeKind::kReceive;
  });
  qp.rq_head = head + 1;
}

// Splits `length` bytes over the SGEs of the oldest receive, or of the receive `skip` places behind it, into
// at most kMaxSge pieces. If `keys` is not null, it receives the keys of their regions.
ibv_wc_status scatterReceive(Segment& segment, const QpRecord& qp, uint64_t skip, uint64_t length,
                             Piece* pieces, int* count, uint32_t* keys = nullptr);

// Flushes the posted receives of a QP in ERR.
void flushReceives(Fabric& fabric, QpRecord& qp);
// Puts the QP into ERR and flushes its receives.
void enterError(Fabric& fabric, QpRecord& qp);
// Repairs after a process died with the lock: consumes a receive that was already completed, and finishes a
// flush of receives that had begun.
void recoverResponder(Fabric& fabric, QpRecord& qp);

// Holds a QP's responder lock. Repairs the responder first if the last owner of the lock died with it.
class ResponderGuard {
 public:
  ResponderGuard(Fabric& fabric, QpRecord& qp) : lock_(qp.responder) {
    if (lock_.lock(fabric.self)) [[unlikely]]
      recoverResponder(fabric, qp);
  }
  ~ResponderGuard() { lock_.unlock(); }
  ResponderGuard(const ResponderGuard&) = delete;
  ResponderGuard& operator=(const ResponderGuard&) = delete;

 private:
  SharedLock& lock_;
};

}  // namespace railwise::softdev
