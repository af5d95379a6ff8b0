#include "softdev/verbs/transitions.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/log.h"
#include "softdev/engine/progress.h"
#include "softdev/engine/requester.h"
#include "softdev/fabric/monotonic.h"
#include "softdev/fabric/ports.h"
#include "softdev/faults/verb_faults.h"
#include "softdev/memory/agent.h"
#include "softdev/queues/responder.h"
#include "softdev/verbs/completion_queue.h"

namespace railwise::softdev {
namespace {

// Empties both queues and drops the completions that are not polled yet. The caller holds sq_lock.
void reset(Qp& qp) {
  progressRemove(qp);
  emptyInbox(qp);
  qp.parked.clear();
  qp.held.clear();
  qp.wait = {};
  qp.last_ready_ns = 0;
  qp.fetches = {};
  qp.sent_packets = 0;
  std::lock_guard receives(qp.rq_lock);
  QpRecord& record = *qp.record;
  {
    ResponderGuard guard(*qp.fabric, record);
    ++record.epoch;
    record.state.store(IBV_QPS_RESET, std::memory_order_seq_cst);
    record.rq_head = record.rq_tail.load(std::memory_order_relaxed);
    record.last_ready_ns = 0;
    record.received_packets = 0;
  }
  voidCompletions(qp.qp_base.send_cq, qp.index);
  voidCompletions(qp.qp_base.recv_cq, qp.index);
  record.rq_polled.store(record.rq_tail.load(std::memory_order_relaxed), std::memory_order_release);
  record.sq_polled.store(qp.sq_posted, std::memory_order_release);
  qp.attr = {};
  offerEce(qp);
  qp.peer = {};
  if (qp.peer_memory != nullptr) qp.peer_memory->forget();
  qp.draining = false;
}

void enterErrorByUser(Qp& qp) {
  {
    ResponderGuard guard(*qp.fabric, *qp.record);
    enterError(*qp.fabric, *qp.record);
  }
  progressRemove(qp);
  flushParked(qp);
}

// Moves the QP to a state in which work goes on, or sets new values in the same state.
void advance(Qp& qp, const ibv_qp_attr& attr, ibv_qp_state to, int mask) {
  storeAttributes(qp.attr, attr, mask);
  if (to == IBV_QPS_RTR) agreeOnEce(qp);
  if ((mask & IBV_QP_PATH_MTU) != 0) qp.packet_bytes = uint64_t{128} << attr.path_mtu;
  if ((mask & IBV_QP_DEST_QPN) != 0) {
    const uint32_t peer = qpIndexOf(attr.dest_qp_num);
    qp.peer = {};
    qp.peer.record = peer >= kFirstQpIndex && peer < kMaxQps ? &qp.fabric->segment->qps[peer] : nullptr;
  }
  QpRecord& record = *qp.record;
  ResponderGuard guard(*qp.fabric, record);
  const Context& context = as<Context>(qp.qp_base.context);
  if ((mask & IBV_QP_PORT) != 0) {
    record.port = context.record->ports[attr.port_num - 1];
    const PortRecord& port = qp.fabric->segment->ports[record.port];
    const bool infiniband = port.link_layer == IBV_LINK_LAYER_INFINIBAND;
    qp.lid = static_cast<uint16_t>(infiniband ? record.port + 1 : 0);
  }
  record.access = qp.attr.qp_access_flags;
  record.qkey = qp.attr.qkey;
  record.dest_qp_num = qp.attr.dest_qp_num;
  record.global_path = qp.attr.ah_attr.is_global;
  std::memcpy(record.dgid, qp.attr.ah_attr.grh.dgid.raw, sizeof record.dgid);
  record.max_dest_rd_atomic = qp.attr.max_dest_rd_atomic;
  record.min_rnr_timer.store(qp.attr.min_rnr_timer, std::memory_order_relaxed);
  ++record.epoch;
  // If the peer has moved us to ERR since the check, ERR stays.
  if (record.state.load(std::memory_order_relaxed) != IBV_QPS_ERR)
    record.state.store(to, std::memory_order_seq_cst);
}

// A send that has begun and waits for its receiver is the last one to be executed. Sends after it stay in the
// queue.
void startDraining(Qp& qp) {
  const bool begun = !qp.parked.empty() && qp.wait.reason != Wait::Reason::kNone;
  qp.drained_at = begun ? qp.parked.front().work.retires : 0;
  qp.draining = true;
  finishDraining(qp);
}

void resumeSending(Qp& qp) {
  qp.draining = false;
  qp.resumed_ns = monotonicNs();
  retryParked(qp);
  if (!qp.parked.empty()) progressAdd(qp);
}

}  // namespace

int modifyQp(ibv_qp* base, ibv_qp_attr* attr, int mask) {
  Qp& qp = as<Qp>(base);
  if (const int injected = verbFault(as<Context>(base->context), Verb::kModifyQp, qp.record); injected != 0)
    return injected;
  return changeState(qp, *attr, mask, qp.iwarp);
}

int changeState(Qp& qp, const ibv_qp_attr& wanted, int mask, bool restricted) {
  ibv_qp* base = &qp.qp_base;
  const ibv_qp_attr* attr = &wanted;
  std::lock_guard lock(qp.sq_lock);
  const ibv_qp_state from = qp.currentState();
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : from;
  if ((mask & IBV_QP_CUR_STATE) != 0 && attr->cur_qp_state != from) return EINVAL;
  if (!transitionAllowed(base->qp_type, restricted, from, to, mask) ||
      !validAttributes(as<Context>(base->context), *attr, mask))
    return EINVAL;
  if (to == IBV_QPS_RTR && base->qp_type == IBV_QPT_RC && (mask & IBV_QP_AV) != 0) {
    const PortRecord& here = qp.fabric->segment->ports[qp.record->port];
    if (const int error = checkDestination(qp, here, attr->ah_attr); error != 0) return error;
  }
  if (to == IBV_QPS_RESET) {
    reset(qp);
  } else if (to == IBV_QPS_ERR) {
    enterErrorByUser(qp);
  } else {
    advance(qp, *attr, to, mask);
    if (qp.peer.record != nullptr)
      meetPeer(*qp.fabric, qp.peer.record->owner.load(std::memory_order_acquire));
    if (from != IBV_QPS_SQD && to == IBV_QPS_SQD) startDraining(qp);
    if (from == IBV_QPS_SQD && to == IBV_QPS_RTS) resumeSending(qp);
  }
  qp.qp_base.state = qp.currentState();
  return 0;
}

int checkDestination(const Qp& qp, const PortRecord& here, const ibv_ah_attr& path) {
  const Segment& segment = *qp.fabric->segment;
  const bool infiniband = here.link_layer == IBV_LINK_LAYER_INFINIBAND;
  if (path.is_global != 0 && findGid(segment, path.grh.dgid.raw, kAnyGidType) != nullptr) return 0;
  if (infiniband && path.dlid >= 1 && path.dlid <= kMaxPorts &&
      segment.ports[path.dlid - 1].guid.load(std::memory_order_acquire) != 0)
    return 0;
  char address[INET6_ADDRSTRLEN + 16] = "?";
  if (path.is_global != 0) {
    inet_ntop(AF_INET6, path.grh.dgid.raw, address, sizeof address);
  } else {
    std::snprintf(address, sizeof address, "LID %u", static_cast<unsigned>(path.dlid));
  }
  RAILWISE_WARN(
      "software device: %s port %u on host %s: the peer's address %s is not on the fabric %s: software "
      "devices reach only processes of this machine, with the same user and fabric name",
      here.device, here.number, here.host, address, qp.fabric->prefix.c_str());
  return EHOSTUNREACH;
}

}  // namespace railwise::softdev
