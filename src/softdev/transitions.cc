// modifyQp: the states of a reliable connection (InfiniBand specification, section 10.3; ibv_modify_qp(3)).
#include <cerrno>
#include <cstring>

#include "softdev/completion_queue.h"
#include "softdev/progress.h"
#include "softdev/requester.h"
#include "softdev/verb_faults.h"

namespace railwise::softdev {
namespace {

struct Transition {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int optional;
};

constexpr int kPort = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kReceive = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kSend =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kLater = IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;

// SQD and alternate paths are not supported. To RESET and to ERR one may come from any state.
constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kPort, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kPort},
    {IBV_QPS_INIT, IBV_QPS_RTR, kReceive, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS, kSend, kLater},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kLater},
};

bool allowed(ibv_qp_state from, ibv_qp_state to, int mask) {
  mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return mask == 0;
  for (const Transition& transition : kTransitions) {
    if (transition.from != from || transition.to != to) continue;
    return (mask & transition.required) == transition.required &&
           (mask & ~(transition.required | transition.optional)) == 0;
  }
  return false;
}

bool validPort(const Context& context, uint32_t port_num) {
  return port_num >= 1 && port_num <= context.record->port_count;
}

bool validPath(const Context& context, const ibv_ah_attr& path) {
  if (!validPort(context, path.port_num)) return false;
  const PortRecord& port = context.fabric->segment->ports[context.record->ports[path.port_num - 1]];
  if (path.is_global != 0 && path.grh.sgid_index >= port.gid_count.load(std::memory_order_acquire))
    return false;
  return port.link_layer == IBV_LINK_LAYER_INFINIBAND ? path.dlid != 0 : path.is_global != 0;
}

bool validValues(const Context& context, const ibv_qp_attr& attr, int mask) {
  constexpr unsigned kAccess =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  // The path and its MTU are set together, on the way to RTR.
  const PortConfig* port = context.config_device->config.port(attr.ah_attr.port_num);
  const ibv_mtu active_mtu = port != nullptr ? port->mtu : IBV_MTU_256;
  return !((has(IBV_QP_PKEY_INDEX) && attr.pkey_index != 0) ||
           (has(IBV_QP_PORT) && !validPort(context, attr.port_num)) ||
           (has(IBV_QP_ACCESS_FLAGS) && (attr.qp_access_flags & ~kAccess) != 0) ||
           (has(IBV_QP_AV) && !validPath(context, attr.ah_attr)) ||
           (has(IBV_QP_PATH_MTU) && (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > active_mtu)) ||
           (has(IBV_QP_DEST_QPN) && attr.dest_qp_num > 0xffffff) ||
           (has(IBV_QP_MAX_DEST_RD_ATOMIC) && attr.max_dest_rd_atomic > kMaxRdAtomic) ||
           (has(IBV_QP_MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > kMaxRdAtomic) ||
           (has(IBV_QP_MIN_RNR_TIMER) && attr.min_rnr_timer > 31) ||
           (has(IBV_QP_TIMEOUT) && attr.timeout > 31) || (has(IBV_QP_RETRY_CNT) && attr.retry_cnt > 7) ||
           (has(IBV_QP_RNR_RETRY) && attr.rnr_retry > 7));
}

void storeValues(ibv_qp_attr& to, const ibv_qp_attr& from, int mask) {
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_PKEY_INDEX)) to.pkey_index = from.pkey_index;
  if (has(IBV_QP_PORT)) to.port_num = from.port_num;
  if (has(IBV_QP_ACCESS_FLAGS)) to.qp_access_flags = from.qp_access_flags;
  if (has(IBV_QP_AV)) to.ah_attr = from.ah_attr;
  if (has(IBV_QP_PATH_MTU)) to.path_mtu = from.path_mtu;
  if (has(IBV_QP_DEST_QPN)) to.dest_qp_num = from.dest_qp_num;
  if (has(IBV_QP_RQ_PSN)) to.rq_psn = from.rq_psn;
  if (has(IBV_QP_SQ_PSN)) to.sq_psn = from.sq_psn;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) to.max_rd_atomic = from.max_rd_atomic;
  if (has(IBV_QP_MIN_RNR_TIMER)) to.min_rnr_timer = from.min_rnr_timer;
  if (has(IBV_QP_TIMEOUT)) to.timeout = from.timeout;
  if (has(IBV_QP_RETRY_CNT)) to.retry_cnt = from.retry_cnt;
  if (has(IBV_QP_RNR_RETRY)) to.rnr_retry = from.rnr_retry;
}

// Both queues empty, nothing completed left to poll. sq_lock is held.
void reset(Qp& qp) {
  progressRemove(qp);
  emptyInbox(qp);
  qp.parked.clear();
  qp.last_ready_ns = 0;
  std::lock_guard receives(qp.rq_lock);
  QpRecord& record = *qp.record;
  {
    SharedLockGuard guard(record.responder, qp.fabric->self);
    ++record.epoch;
    record.state.store(IBV_QPS_RESET, std::memory_order_seq_cst);
    record.rq_head = record.rq_tail.load(std::memory_order_relaxed);
    record.last_ready_ns = 0;
  }
  voidCompletions(qp.qp_base.send_cq, qp.index);
  voidCompletions(qp.qp_base.recv_cq, qp.index);
  record.rq_polled.store(record.rq_tail.load(std::memory_order_relaxed), std::memory_order_release);
  record.sq_polled.store(qp.sq_posted, std::memory_order_release);
  qp.attr = {};
  qp.peer = {};
}

void enterErrorByUser(Qp& qp) {
  {
    SharedLockGuard guard(qp.record->responder, qp.fabric->self);
    enterError(*qp.fabric, *qp.record);
  }
  progressRemove(qp);
  flushParked(qp);
}

// RESET -> INIT -> RTR -> RTS, or new values in the same state.
void advance(Qp& qp, const ibv_qp_attr& attr, ibv_qp_state to, int mask) {
  storeValues(qp.attr, attr, mask);
  if ((mask & IBV_QP_DEST_QPN) != 0) {
    const uint32_t peer = qpIndexOf(attr.dest_qp_num);
    qp.peer = {};
    qp.peer.record = peer >= kFirstQpIndex && peer < kMaxQps ? &qp.fabric->segment->qps[peer] : nullptr;
  }
  QpRecord& record = *qp.record;
  SharedLockGuard guard(record.responder, qp.fabric->self);
  const Context& context = as<Context>(qp.qp_base.context);
  if ((mask & IBV_QP_PORT) != 0) {
    record.port = context.record->ports[attr.port_num - 1];
    const PortRecord& port = qp.fabric->segment->ports[record.port];
    const bool infiniband = port.link_layer == IBV_LINK_LAYER_INFINIBAND;
    qp.lid = static_cast<uint16_t>(infiniband ? record.port + 1 : 0);
  }
  record.access = qp.attr.qp_access_flags;
  record.dest_qp_num = qp.attr.dest_qp_num;
  record.global_path = qp.attr.ah_attr.is_global;
  std::memcpy(record.dgid, qp.attr.ah_attr.grh.dgid.raw, sizeof record.dgid);
  record.min_rnr_timer.store(qp.attr.min_rnr_timer, std::memory_order_relaxed);
  ++record.epoch;
  // The peer may have moved us to ERR since the check: that stays.
  if (record.state.load(std::memory_order_relaxed) != IBV_QPS_ERR)
    record.state.store(to, std::memory_order_seq_cst);
}

}  // namespace

int modifyQp(ibv_qp* base, ibv_qp_attr* attr, int mask) {
  Qp& qp = as<Qp>(base);
  if (const int injected = verbFault(as<Context>(base->context), Verb::kModifyQp, qp.record); injected != 0)
    return injected;
  std::lock_guard lock(qp.sq_lock);
  const ibv_qp_state from = qp.currentState();
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : from;
  if ((mask & IBV_QP_CUR_STATE) != 0 && attr->cur_qp_state != from) return EINVAL;
  if (!allowed(from, to, mask) || !validValues(as<Context>(base->context), *attr, mask)) return EINVAL;
  if (to == IBV_QPS_RESET) {
    reset(qp);
  } else if (to == IBV_QPS_ERR) {
    enterErrorByUser(qp);
  } else {
    advance(qp, *attr, to, mask);
  }
  qp.qp_base.state = qp.currentState();
  return 0;
}

}  // namespace railwise::softdev
