// The fast path of a send, for nearly every send: one SGE, a verified queue pair of this process as the peer,
// and no special feature. All of it is inlined and stays in registers. A send that does not fit is left
// untouched for the slow path (requester.h). Only the slow path handles errors.
#pragma once

#include "softdev/engine/packets.h"
#include "softdev/memory/mover.h"
#include "softdev/queues/completion_ring.h"
#include "softdev/queues/objects.h"
#include "softdev/queues/responder.h"

namespace railwise::softdev {

// A batch of sends of one QP. The peer's responder lock is held for the lifetime of this object. The caller
// holds the QP's sq_lock.
class Express {
 public:
  explicit Express(Qp& qp) : qp_(qp), peer_(*qp.peer.record) {
    if (peer_.responder.lock(qp.fabric->self)) recoverResponder(*qp.fabric, peer_);
    open_ = peer_.epoch == qp.peer.epoch;
  }
  ~Express() { peer_.responder.unlock(); }
  Express(const Express&) = delete;
  Express& operator=(const Express&) = delete;

  // May this QP take the fast path at all (so that an Express can be made)?
  static bool serves(const Qp& qp) { return qp.peer.local && qp.special == 0 && qp.parked.empty(); }

  bool open() const { return open_; }

  // Executes the request and counts it. False: the request must take the slow path, and nothing has happened.
  [[gnu::always_inline]] bool send(const ibv_send_wr& wr) {
    if (wr.num_sge != 1 || qp_.cap.max_send_sge == 0 || wr.opcode > IBV_WR_SEND_WITH_IMM) return false;
    static_assert(IBV_WR_RDMA_WRITE == 0 && IBV_WR_RDMA_WRITE_WITH_IMM == 1 && IBV_WR_SEND == 2 &&
                  IBV_WR_SEND_WITH_IMM == 3);
    QpRecord& mine = *qp_.record;
    const uint64_t length = wr.sg_list[0].length;
    const uint64_t posted = qp_.sq_posted;
    // One comparison for an empty message and for one that is too long.
    if (qp_.currentState() != IBV_QPS_RTS || length - 1 >= qp_.max_message_bytes ||
        posted - mine.sq_polled.load(std::memory_order_acquire) >= qp_.cap.max_send_wr)
      return false;
    const std::byte* from = source(wr);
    if (from == nullptr) return false;
    const bool is_write = wr.opcode <= IBV_WR_RDMA_WRITE_WITH_IMM;
    if (wr.opcode != IBV_WR_RDMA_WRITE && !receivePosted()) return false;
    std::byte* to = is_write ? writeTarget(wr, length) : sendTarget(length);
    if (to == nullptr) return false;
    writeHere(to, from, length);
    qp_.sq_posted = posted + 1;
    ++qp_.sent_packets;
    ++peer_.received_packets;
    if (length > qp_.packet_bytes) [[unlikely]]
      countMorePackets(qp_, peer_, length);
    const bool signalled = qp_.signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
    // Completes the send here before it completes the receive at the peer, as finish() does.
    if (signalled) completeHere(wr, length, is_write, posted + 1);
    if (wr.opcode != IBV_WR_RDMA_WRITE) completeAtPeer(wr, length, is_write);
    count(wr, length, signalled);
    return true;
  }

 private:
  [[gnu::always_inline]] const std::byte* source(const ibv_send_wr& wr) const {
    const ibv_sge& sge = wr.sg_list[0];
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
      return sge.length <= qp_.cap.max_inline_data ? reinterpret_cast<const std::byte*>(sge.addr)  // NOLINT
                                                   : nullptr;
    }
    std::byte* memory = nullptr;
    return resolveKey(*qp_.fabric->segment, sge.lkey, qp_.pd_id, sge.addr, sge.length, 0, &memory) ? memory
                                                                                                   : nullptr;
  }

  [[gnu::always_inline]] std::byte* writeTarget(const ibv_send_wr& wr, uint64_t length) const {
    std::byte* memory = nullptr;
    const bool allowed = (peer_.access & IBV_ACCESS_REMOTE_WRITE) != 0 &&
                         resolveKey(*qp_.fabric->segment, wr.wr.rdma.rkey, peer_.pd, wr.wr.rdma.remote_addr,
                                    length, IBV_ACCESS_REMOTE_WRITE, &memory);
    return allowed ? memory : nullptr;
  }

  bool receivePosted() const { return peer_.srq == 0 && receivesPosted(peer_) != 0; }

  // The memory of the oldest receive, if the receive has one SGE and is large enough. Null otherwise.
  [[gnu::always_inline]] std::byte* sendTarget(uint64_t length) const {
    const ReceiveEntry& receive = receiveAt(*qp_.fabric->segment, peer_, peer_.rq_head);
    const Sge& sge = receive.sges()[0];
    std::byte* memory = nullptr;
    const bool fits = receive.num_sge == 1 && length <= sge.length &&
                      resolveKey(*qp_.fabric->segment, sge.lkey, peer_.pd, sge.address, sge.length,
                                 IBV_ACCESS_LOCAL_WRITE, &memory);
    return fits ? memory : nullptr;
  }

  [[gnu::always_inline]] void completeAtPeer(const ibv_send_wr& wr, uint64_t length, bool is_write) {
    Arrival arrival;
    arrival.opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    arrival.byte_len = static_cast<uint32_t>(length);
    arrival.has_imm = wr.opcode != IBV_WR_SEND;
    arrival.solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
    arrival.imm_data = arrival.has_imm ? wr.imm_data : 0;
    arrival.src_qp = qp_.qp_base.qp_num;
    arrival.slid = qp_.lid;
    completeReceive(*qp_.fabric, peer_, arrival);
  }

  [[gnu::always_inline]] void completeHere(const ibv_send_wr& wr, uint64_t length, bool is_write,
                                           uint64_t retires) {
    pushCompletion(*qp_.fabric, *qp_.send_cq_record, [&](Cqe& cqe) {
      cqe.wr_id = wr.wr_id;
      cqe.retires = retires;
      cqe.ready_ns = 0;
      cqe.byte_len = static_cast<uint32_t>(length);
      cqe.imm_data = 0;
      cqe.qp_num = qp_.qp_base.qp_num;
      cqe.src_qp = 0;
      cqe.qp_index = static_cast<uint16_t>(qp_.index);
      cqe.slid = 0;
      cqe.status = IBV_WC_SUCCESS;
      cqe.opcode = is_write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
      cqe.wc_flags = 0;
      cqe.kind = CqeKind::kSend;
    });
  }

  [[gnu::always_inline]] void count(const ibv_send_wr& wr, uint64_t length, bool signalled) {
    WorkCounters& counters = qp_.record->counters;
    if (wr.opcode == IBV_WR_RDMA_WRITE) {
      counters.writes.add(1);
    } else if (wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
      counters.writes_with_imm.add(1);
    } else {
      counters.sends.add(1);
    }
    counters.bytes.add(length);
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) counters.inlined.add(1);
    if (signalled) counters.signalled.add(1);
  }

  Qp& qp_;
  QpRecord& peer_;
  bool open_;
};

}  // namespace railwise::softdev
