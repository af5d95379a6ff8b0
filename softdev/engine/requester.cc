#include "softdev/engine/requester.h"

#include <algorithm>

#include "softdev/engine/atomics.h"
#include "softdev/engine/pacing.h"
#include "softdev/engine/packets.h"
#include "softdev/engine/placement.h"
#include "softdev/fabric/events.h"
#include "softdev/fabric/monotonic.h"
#include "softdev/fabric/ports.h"
#include "softdev/memory/agent.h"
#include "softdev/queues/completion_ring.h"
#include "softdev/queues/receive_claim.h"
#include "softdev/queues/reclaim.h"
#include "softdev/queues/responder.h"

namespace railwise::softdev {
namespace {

constexpr bool isSend(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
}
constexpr bool hasImm(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND_WITH_IMM;
}
constexpr bool consumesReceive(ibv_wr_opcode opcode) { return isSend(opcode) || hasImm(opcode); }

// Does the request fetch something, so that it needs resources of the responder?
constexpr bool fetches(ibv_wr_opcode opcode) { return opcode == IBV_WR_RDMA_READ || isAtomic(opcode); }

constexpr ibv_wc_opcode completionOpcode(ibv_wr_opcode opcode) {
  if (isSend(opcode)) return IBV_WC_SEND;
  switch (opcode) {
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    case IBV_WR_ATOMIC_WRITE:
      return IBV_WC_ATOMIC_WRITE;
    default:
      return IBV_WC_RDMA_WRITE;
  }
}

// Resolves the caller's SGEs to memory of this process.
ibv_wc_status resolveLocal(const Qp& qp, const Work& work, Pieces* pieces) {
  if (work.length > qp.max_message_bytes) [[unlikely]]
    return IBV_WC_LOC_LEN_ERR;
  const bool fetching = fetches(work.opcode);
  if (fetching && qp.attr.max_rd_atomic == 0) [[unlikely]]
    return IBV_WC_LOC_QP_OP_ERR;
  if (work.length != sizeof(uint64_t) && (isAtomic(work.opcode) || work.opcode == IBV_WR_ATOMIC_WRITE))
      [[unlikely]]
    return IBV_WC_LOC_LEN_ERR;
  // On iWARP the memory that a read fills must allow remote writes, because the answer is a write (RFC 5040,
  // section 4.4).
  const int sink = IBV_ACCESS_LOCAL_WRITE | (qp.iwarp ? IBV_ACCESS_REMOTE_WRITE : 0);
  const int access = fetching ? sink : 0;
  for (int i = 0; i < work.num_sge; ++i) {
    const ibv_sge& sge = work.sges[i];
    if (sge.length == 0) continue;
    Piece& piece = pieces->list[pieces->count++];
    piece.length = sge.length;
    if (work.inlined) {
      piece.address = reinterpret_cast<std::byte*>(sge.addr);  // NOLINT: the caller's memory, no key needed
    } else if (!resolveKey(*qp.fabric->segment, sge.lkey, qp.pd_id, sge.addr, sge.length, access,
                           &piece.address)) [[unlikely]] {
      return IBV_WC_LOC_PROT_ERR;
    }
  }
  return IBV_WC_SUCCESS;
}

// Resolves the memory of the peer that a write or read names.
bool resolveRemote(const Qp& qp, const Work& work, std::byte** memory) {
  const QpRecord& peer = *qp.peer.record;
  const int access = work.opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
                     : isAtomic(work.opcode)         ? IBV_ACCESS_REMOTE_ATOMIC
                                                     : IBV_ACCESS_REMOTE_WRITE;
  return (peer.access & static_cast<uint32_t>(access)) != 0 &&
         resolveKey(*qp.fabric->segment, work.rkey, peer.pd, work.remote_addr, work.length, access, memory);
}

// When the send that is being executed begins, in the time model.
uint64_t beginOf(const Qp& qp) { return qp.begin_ns != 0 ? qp.begin_ns : monotonicNs(); }

// Computes when the completions of this transfer may be polled, at the peer and here.
void keepTime(Qp& qp, const Work& work) {
  Segment& segment = *qp.fabric->segment;
  PortRecord& here = segment.ports[qp.record->port];
  PortRecord& there = segment.ports[qp.peer.record->port];
  const bool inward = work.opcode == IBV_WR_RDMA_READ;
  const uint64_t begin = beginOf(qp);
  const Passage passage = inward ? travel(segment, there, here, work.length, begin)
                                 : travel(segment, here, there, work.length, begin);
  qp.last_ready_ns = std::max(qp.last_ready_ns, passage.acknowledged_ns);
  if (fetches(work.opcode)) qp.fetches.add(qp.last_ready_ns);
  qp.send_cq_record->timed.store(1, std::memory_order_relaxed);
  if (!consumesReceive(work.opcode)) return;
  QpRecord& peer = *qp.peer.record;
  peer.last_ready_ns = std::max(peer.last_ready_ns, passage.arrived_ns);
  segment.cqs[peer.recv_cq].timed.store(1, std::memory_order_relaxed);
}

// Completes a send that has arrived: first here, then at the peer. On a wire the order is the same, because
// the acknowledgement is sent before the application can answer.
void finish(Qp& qp, const Work& work) {
  if ((qp.special & kSpecialTime) != 0) [[unlikely]]
    keepTime(qp, work);
  countExecuted(qp, *qp.peer.record, work.length);
  if (work.signalled) completeSend(qp, work, IBV_WC_SUCCESS);
  if (consumesReceive(work.opcode)) {
    Arrival arrival;
    arrival.opcode = isSend(work.opcode) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
    arrival.byte_len = static_cast<uint32_t>(work.length);
    arrival.has_imm = hasImm(work.opcode);
    arrival.solicited = work.solicited;
    arrival.imm_data = work.imm_data;
    arrival.src_qp = qp.qp_base.qp_num;
    arrival.slid = qp.lid;
    completeReceive(*qp.fabric, *qp.peer.record, arrival);
  }
}

// Does the peer have more receives than the `taken` receives that batched sends will consume?
bool hasReceive(const Fabric& fabric, QpRecord& peer, uint64_t taken) {
  return receivesPosted(peer) > taken || (peer.srq != 0 && claimReceive(fabric, peer, taken));
}

// Is `peer` the QP that our address and number name, and is it connected to us?
bool connected(const Qp& qp, const QpRecord& peer) {
  const Segment& segment = *qp.fabric->segment;
  const uint32_t state = peer.state.load(std::memory_order_relaxed);
  if (peer.qp_num.load(std::memory_order_relaxed) != qp.attr.dest_qp_num ||
      peer.dest_qp_num != qp.qp_base.qp_num || peer.type != IBV_QPT_RC || state < IBV_QPS_RTR ||
      state > IBV_QPS_SQD)
    return false;
  const PortRecord& there = segment.ports[peer.port];
  const PortRecord& here = segment.ports[qp.record->port];
  if (there.link_layer != here.link_layer || there.iwarp != here.iwarp) return false;
  if (!active(there) || !active(here)) return false;
  const ibv_ah_attr& path = qp.attr.ah_attr;
  const bool infiniband = here.link_layer == IBV_LINK_LAYER_INFINIBAND;
  if (infiniband && path.dlid != peer.port + 1) return false;
  const uint32_t type = path.is_global != 0 ? here.gids[path.grh.sgid_index].type : kAnyGidType;
  // False if the peer's answers would go to another address: the peer is then not connected to us.
  if (peer.global_path != 0 && !hasGid(here, peer.dgid, type)) return false;
  if (path.is_global == 0) return infiniband;
  return hasGid(there, path.grh.dgid.raw, type);
}

// May the connection manager still bring `peer` up?
bool awaited(const Qp& qp, const QpRecord& peer) {
  return peer.qp_num.load(std::memory_order_relaxed) == qp.attr.dest_qp_num && peer.dest_qp_num == 0 &&
         peer.state.load(std::memory_order_relaxed) <= IBV_QPS_INIT;
}

// The status for a failed transfer. The peer may be dying: its memory disappears before it counts as dead.
ibv_wc_status explain(const Qp& qp, const Work& work, int error) {
  const ProcessSlot& process = qp.fabric->segment->processes[slotOf(qp.peer.token)];
  if (error != EFAULT) return IBV_WC_RETRY_EXC_ERR;
  if (processLeaving(static_cast<pid_t>(process.pid.load(std::memory_order_acquire)),
                     process.start_time.load(std::memory_order_relaxed)) ||
      !tokenAlive(qp.fabric->self, qp.peer.token))
    return IBV_WC_RETRY_EXC_ERR;
  Pieces local;
  if (resolveLocal(qp, work, &local) != IBV_WC_SUCCESS) return IBV_WC_LOC_PROT_ERR;
  for (int i = 0; i < local.count; ++i) {
    if (!isMapped(local.list[i].address, local.list[i].length)) return IBV_WC_LOC_PROT_ERR;
  }
  return isSend(work.opcode) ? IBV_WC_REM_OP_ERR : IBV_WC_REM_ACCESS_ERR;
}

// Does the responder accept such a request? Each read or atomic operation that is outstanding takes one of
// its resources, and some requests must be aligned.
ibv_wc_status askable(const Qp& qp, const Work& work) {
  const bool aligned = work.opcode == IBV_WR_RDMA_READ || work.remote_addr % sizeof(uint64_t) == 0;
  const bool possible =
      !fetches(work.opcode) || qp.fetches.outstanding(beginOf(qp)) < qp.peer.record->max_dest_rd_atomic;
  return aligned && possible ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR;
}

// Must this request wait until an earlier read or atomic operation is answered (max_rd_atomic)?
bool windowFull(const Qp& qp, const Work& work) {
  return fetches(work.opcode) && qp.fetches.opensAt(qp.attr.max_rd_atomic) > beginOf(qp);
}

constexpr Outcome kPeerDead{Verdict::kFailed, IBV_WC_RETRY_EXC_ERR};

}  // namespace

void completeSend(Qp& qp, const Work& work, ibv_wc_status status) {
  pushCompletion(*qp.fabric, *qp.send_cq_record, [&](Cqe& cqe) {
    cqe.wr_id = work.wr_id;
    cqe.retires = work.retires;
    cqe.status = static_cast<uint8_t>(status);
    cqe.opcode = static_cast<uint8_t>(completionOpcode(work.opcode));
    cqe.byte_len = status == IBV_WC_SUCCESS ? static_cast<uint32_t>(work.length) : 0;
    cqe.imm_data = 0;
    cqe.qp_num = qp.qp_base.qp_num;
    cqe.src_qp = 0;
    cqe.wc_flags = 0;
    cqe.qp_index = static_cast<uint16_t>(qp.index);
    cqe.ready_ns = qp.last_ready_ns;
    cqe.slid = 0;
    cqe.kind = CqeKind::kSend;
  });
}

Outcome Chain::run(const Work& work) {
  Pieces pieces;
  if (const ibv_wc_status status = resolveLocal(qp_, work, &pieces); status != IBV_WC_SUCCESS) [[unlikely]]
    return {Verdict::kFailed, status};
  if (!locked_) {
    if (const Outcome outcome = lockPeer(); outcome.verdict != Verdict::kDone) [[unlikely]]
      return outcome;
  }
  if ((qp_.special & kSpecialIwarp) != 0 && (qp_.special & kSpecialPlacement) != 0) [[unlikely]] {
    if (work.opcode == IBV_WR_RDMA_WRITE) return hold(work, pieces);
    if (const Outcome outcome = placeHeld(); outcome.verdict != Verdict::kDone) return outcome;
  }
  if (work.opcode >= IBV_WR_RDMA_READ) [[unlikely]] {
    if (windowFull(qp_, work)) return {Verdict::kWindowFull};
    if (const ibv_wc_status status = askable(qp_, work); status != IBV_WC_SUCCESS)
      return !qp_.peer.local && !flush() ? Outcome{Verdict::kBroken} : refuse(status);
    if (isAtomic(work.opcode)) return runAtomic(work, pieces);
  }
  return qp_.peer.local ? runHere(work, pieces) : runThere(work, pieces);
}

Outcome Chain::lockPeer() {
  Peer& peer = qp_.peer;
  if (peer.record == nullptr) return {Verdict::kUnreachable};
  if (peer.record->responder.lock(qp_.fabric->self)) recoverResponder(*qp_.fabric, *peer.record);
  locked_ = true;
  if (peer.epoch != peer.record->epoch) [[unlikely]]
    return verifyPeer();
  if (!peer.local && !peerAlive(*qp_.fabric, peer.token)) return dropPeer(kPeerDead);
  return {};
}

Outcome Chain::verifyPeer() {
  Peer& peer = qp_.peer;
  Fabric& fabric = *qp_.fabric;
  if (!connected(qp_, *peer.record)) {
    // An iWARP connection that is lost never comes back.
    const bool died =
        (peer.token != 0 && peer.token != fabric.self.token && !peerAlive(fabric, peer.token)) ||
        (qp_.iwarp && !awaited(qp_, *peer.record));
    return dropPeer(died ? kPeerDead : Outcome{Verdict::kUnreachable});
  }
  peer.token = peer.record->owner.load(std::memory_order_acquire);
  peer.local = peer.token == fabric.self.token;
  if (!peer.local) {
    if (qp_.batch == nullptr) qp_.batch = std::make_unique<VmBatch>();
    if (qp_.peer_memory == nullptr) qp_.peer_memory = std::make_unique<PeerMemory>();
    const MoverChoice mover = as<Context>(qp_.qp_base.context).config_device->config.mover;
    if (!peerAlive(fabric, peer.token)) return dropPeer(kPeerDead);
    if (!qp_.peer_memory->connect(fabric, peer.token, mover)) {
      const Outcome outcome = dropPeer({Verdict::kUnreachable});
      // Called after the responder lock is released, because meetPeer() takes the table lock, which comes
      // before it.
      meetPeer(fabric, peer.token);
      return outcome;
    }
  }
  const PortRecord& there = fabric.segment->ports[peer.record->port];
  const PortRecord& here = fabric.segment->ports[qp_.record->port];
  const bool paced =
      (there.paced.load(std::memory_order_relaxed) | here.paced.load(std::memory_order_relaxed)) != 0;
  qp_.special = paced ? qp_.special | kSpecialTime : qp_.special & ~uint32_t{kSpecialTime};
  peer.epoch = peer.record->epoch;
  if (peer.record->state.load(std::memory_order_relaxed) == IBV_QPS_RTR)
    raiseQpEvent(fabric, *peer.record, IBV_EVENT_COMM_EST);  // the peer's first message comes now
  return {};
}

Outcome Chain::dropPeer(Outcome outcome) {
  qp_.peer.record->responder.unlock();
  locked_ = false;
  if (outcome.verdict == Verdict::kFailed) {
    if (qp_.peer_memory != nullptr) qp_.peer_memory->forget();
    reclaimDead(*qp_.fabric);
  }
  return outcome;
}

// The peer's side of an error that none of its receives reports: the peer goes to ERR too.
Outcome Chain::refuse(ibv_wc_status status) {
  raiseQpEvent(*qp_.fabric, *qp_.peer.record,
               status == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
  enterError(*qp_.fabric, *qp_.peer.record);
  return {Verdict::kFailed, status};
}

// Handles a send that does not fit its receive: the receiver completes that receive with an error.
Outcome Chain::rejectSend(ibv_wc_status receiver_status) {
  Arrival arrival;
  arrival.status = receiver_status;
  arrival.src_qp = qp_.qp_base.qp_num;
  completeReceive(*qp_.fabric, *qp_.peer.record, arrival);
  enterError(*qp_.fabric, *qp_.peer.record);
  return {Verdict::kFailed,
          receiver_status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR};
}

// Handles a send that finds no receive. On iWARP this ends the connection: TCP has delivered the message, so
// nothing will send it again.
Outcome Chain::noReceive() { return qp_.iwarp ? refuse(IBV_WC_REM_OP_ERR) : Outcome{Verdict::kNoReceive}; }

// Adversarial iWARP: a write completes here at once, and becomes visible at the peer only when a later send
// does.
Outcome Chain::hold(const Work& work, const Pieces& pieces) {
  ParkedWork& held = qp_.held.emplace_back();
  held.work = work;
  held.work.signalled = false;
  held.work.inlined = true;
  held.payload.reserve(work.length);
  for (int i = 0; i < pieces.count; ++i) {
    const Piece& piece = pieces.list[i];
    held.payload.insert(held.payload.end(), piece.address, piece.address + piece.length);
  }
  held.sges = {{reinterpret_cast<uint64_t>(held.payload.data()), static_cast<uint32_t>(work.length), 0}};
  held.work.sges = held.sges.data();
  held.work.num_sge = 1;
  finish(qp_, work);
  return {};
}

// Places the held writes in random order, one by one, because placement in random order batches nothing.
Outcome Chain::placeHeld() {
  std::vector<ParkedWork> writes = std::move(qp_.held);
  qp_.held.clear();
  for (size_t i = writes.size(); i > 1; --i) std::swap(writes[i - 1], writes[qp_.random.below(i)]);
  const uint32_t special = qp_.special;
  qp_.special &= ~uint32_t{kSpecialTime};  // their time was counted when they were posted
  Outcome outcome;
  for (ParkedWork& write : writes) {
    Pieces pieces;
    if (!write.payload.empty()) pieces.list[pieces.count++] = {write.payload.data(), write.payload.size()};
    outcome = qp_.peer.local ? runHere(write.work, pieces) : runThere(write.work, pieces);
    if (outcome.verdict != Verdict::kDone) break;
  }
  qp_.special = special;
  return outcome;
}

Outcome Chain::runHere(const Work& work, const Pieces& pieces) {
  QpRecord& peer = *qp_.peer.record;
  if (consumesReceive(work.opcode) && !hasReceive(*qp_.fabric, peer, 0)) [[unlikely]]
    return noReceive();
  if (isSend(work.opcode)) return sendHere(work, pieces);
  if (work.length > 0) {
    std::byte* memory = nullptr;
    if (!resolveRemote(qp_, work, &memory)) [[unlikely]]
      return refuse(IBV_WC_REM_ACCESS_ERR);
    if (work.opcode == IBV_WR_RDMA_READ) {
      Pieces source;
      source.list[source.count++] = {memory, work.length};
      copyHere(pieces.list, pieces.count, source);
    } else if ((qp_.special & kSpecialPlacement) != 0) [[unlikely]] {
      Pieces target;
      target.list[target.count++] = {memory, work.length};
      placeHere(target, pieces, qp_.random);
    } else if (pieces.count == 1) {
      writeHere(memory, pieces.list[0].address, work.length);
    } else {
      writeHere(memory, pieces, work.length);
    }
  }
  finish(qp_, work);
  return {};
}

Outcome Chain::sendHere(const Work& work, const Pieces& pieces) {
  Pieces target;
  const ibv_wc_status status =
      scatterReceive(*qp_.fabric->segment, *qp_.peer.record, 0, work.length, target.list, &target.count);
  if (status != IBV_WC_SUCCESS) return rejectSend(status);
  if ((qp_.special & kSpecialPlacement) != 0) [[unlikely]] {
    placeHere(target, pieces, qp_.random);
  } else {
    copyHere(target.list, target.count, pieces);
  }
  finish(qp_, work);
  return {};
}

// Finds the memory of the peer for the bytes. Sends batched before take `skip` receives.
Outcome Chain::targetOf(const Work& work, uint64_t skip, RemotePieces* target) {
  if (isSend(work.opcode)) {
    const ibv_wc_status status = scatterReceive(*qp_.fabric->segment, *qp_.peer.record, skip, work.length,
                                                target->list, &target->count, target->keys);
    return status == IBV_WC_SUCCESS ? Outcome{} : Outcome{Verdict::kFailed, status};
  }
  if (work.length == 0) return {};
  target->count = 1;
  target->list[0].length = work.length;
  target->keys[0] = work.rkey;
  if (resolveRemote(qp_, work, &target->list[0].address)) return {};
  return {Verdict::kFailed, IBV_WC_REM_ACCESS_ERR};
}

// Converts the peer's addresses to addresses of this process, if all of them are mapped here.
bool Chain::mapTarget(const Work& work, RemotePieces* target) {
  std::byte* mapped[kMaxSge];
  for (int i = 0; i < target->count; ++i) {
    mapped[i] =
        qp_.peer_memory->map(target->keys[i], target->list[i].address, work.opcode != IBV_WR_RDMA_READ);
    if (mapped[i] == nullptr) return false;
  }
  for (int i = 0; i < target->count; ++i) target->list[i].address = mapped[i];
  return target->count > 0;
}

Outcome Chain::runThere(const Work& work, const Pieces& pieces) {
  VmBatch& batch = *qp_.batch;
  if (work.opcode == IBV_WR_RDMA_READ) return flush() ? readThere(work, pieces) : Outcome{Verdict::kBroken};
  const bool consumes = consumesReceive(work.opcode);
  if (consumes && !hasReceive(*qp_.fabric, *qp_.peer.record, batch.receives()))
    return flush() ? noReceive() : Outcome{Verdict::kBroken};
  RemotePieces target;
  const Outcome outcome = targetOf(work, batch.receives(), &target);
  if (outcome.verdict != Verdict::kDone) {
    if (!flush()) return {Verdict::kBroken};
    return isSend(work.opcode) ? rejectSend(outcome.status) : refuse(outcome.status);
  }
  if (mapTarget(work, &target))
    return flush() ? placeMapped(work, pieces, target) : Outcome{Verdict::kBroken};
  if ((qp_.special & kSpecialPlacement) != 0) [[unlikely]]
    return flush() ? placeThereNow(work, pieces, target) : Outcome{Verdict::kBroken};
  if (!batch.fits(pieces.count, target.count) && !flush()) return {Verdict::kBroken};
  batch.add(work, pieces, target, consumes, !isSend(work.opcode));
  return {};
}

// Places bytes in memory of the peer that is mapped here.
Outcome Chain::placeMapped(const Work& work, const Pieces& pieces, const Pieces& target) {
  if ((qp_.special & kSpecialPlacement) != 0) [[unlikely]] {
    placeHere(target, pieces, qp_.random);
  } else if (isSend(work.opcode)) {
    copyHere(target.list, target.count, pieces);
  } else if (pieces.count == 1) {
    writeHere(target.list[0].address, pieces.list[0].address, work.length);
  } else {
    writeHere(target.list[0].address, pieces, work.length);
  }
  finish(qp_, work);
  return {};
}

// Places a write or send in random order. Nothing is batched with it.
Outcome Chain::placeThereNow(const Work& work, const Pieces& pieces, const Pieces& target) {
  uint64_t calls = 0;
  const int error = placeThere(*qp_.peer_memory, target, pieces, qp_.random, &calls);
  qp_.record->counters.system_calls.add(calls);
  if (error == 0) {
    finish(qp_, work);
    return {};
  }
  const ibv_wc_status status = explain(qp_, work, error);
  const bool refused = status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR;
  return refused ? refuse(status) : Outcome{Verdict::kFailed, status};
}

Outcome Chain::runAtomic(const Work& work, const Pieces& pieces) {
  if (!qp_.peer.local && !flush()) return {Verdict::kBroken};
  RemotePieces target;
  if (const Outcome outcome = targetOf(work, 0, &target); outcome.verdict != Verdict::kDone)
    return refuse(outcome.status);
  const bool here = qp_.peer.local || mapTarget(work, &target);
  uint64_t before = 0;
  uint64_t calls = 0;
  const int error = updateWord(*qp_.fabric, work, target.list[0].address,
                               here ? nullptr : qp_.peer_memory.get(), &before, &calls);
  qp_.record->counters.system_calls.add(calls);
  if (error != 0) {
    const ibv_wc_status status = explain(qp_, work, error);
    return status == IBV_WC_REM_ACCESS_ERR ? refuse(status) : Outcome{Verdict::kFailed, status};
  }
  Pieces answer;
  answer.list[answer.count++] = {reinterpret_cast<std::byte*>(&before), sizeof before};
  copyHere(pieces.list, pieces.count, answer);
  finish(qp_, work);
  return {};
}

Outcome Chain::readThere(const Work& work, const Pieces& pieces) {
  RemotePieces source;
  const Outcome outcome = targetOf(work, 0, &source);
  if (outcome.verdict != Verdict::kDone) return refuse(outcome.status);
  if (mapTarget(work, &source)) {
    copyHere(pieces.list, pieces.count, source);
  } else if (work.length > 0) {
    iovec local[kMaxSge];
    for (int i = 0; i < pieces.count; ++i) local[i] = {pieces.list[i].address, pieces.list[i].length};
    iovec remote{source.list[0].address, work.length};
    int error = 0;
    uint64_t calls = 0;
    qp_.peer_memory->transfer(false, local, pieces.count, &remote, 1, &error, &calls);
    qp_.record->counters.system_calls.add(calls);
    if (error != 0) {
      const ibv_wc_status status = explain(qp_, work, error);
      return status == IBV_WC_REM_ACCESS_ERR ? refuse(status) : Outcome{Verdict::kFailed, status};
    }
  }
  finish(qp_, work);
  return {};
}

// False if the batch failed. Then all of it is completed, and close() moves the QP to ERR.
bool Chain::flush() {
  VmBatch& batch = *qp_.batch;
  if (batch.empty()) return !broken_;
  int error = 0;
  uint64_t calls = 0;
  const int arrived = batch.move(*qp_.peer_memory, &error, &calls);
  qp_.record->counters.system_calls.add(calls);
  for (int i = 0; i < arrived; ++i) finish(qp_, batch.work(i));
  if (error != 0) {
    broken_ = true;
    const ibv_wc_status status = explain(qp_, batch.work(arrived), error);
    countUnexecuted(qp_, batch.work(arrived), status);
    completeSend(qp_, batch.work(arrived), status);
    for (int i = arrived + 1; i < batch.works(); ++i) completeSend(qp_, batch.work(i), IBV_WC_WR_FLUSH_ERR);
    if (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR) (void)refuse(status);
    if (status == IBV_WC_RETRY_EXC_ERR)
      qp_.fabric->checked_at_ns[slotOf(qp_.peer.token)].store(0, std::memory_order_relaxed);
  }
  batch.clear();
  return error == 0;
}

void Chain::closeLocked() {
  if (!qp_.peer.local) (void)flush();
  qp_.peer.record->responder.unlock();
  locked_ = false;
  if (!broken_) return;
  {
    ResponderGuard guard(*qp_.fabric, *qp_.record);
    enterError(*qp_.fabric, *qp_.record);
  }
  if (qp_.peer_memory != nullptr) qp_.peer_memory->forget();
  if (!peerAlive(*qp_.fabric, qp_.peer.token)) reclaimDead(*qp_.fabric);
}

}  // namespace railwise::softdev
