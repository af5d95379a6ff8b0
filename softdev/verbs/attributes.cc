#include "softdev/verbs/transitions.h"

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
constexpr int kDrained = kLater | IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                         IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
                         IBV_QP_PKEY_INDEX;

// Transitions to RESET and to ERR are allowed from every state, so they are not listed.
constexpr Transition kConnected[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kPort, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kPort},
    {IBV_QPS_INIT, IBV_QPS_RTR, kReceive, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS, kSend, kLater},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kLater},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kLater},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, kDrained},
};

constexpr int kDatagramPort = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr Transition kDatagram[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kDatagramPort, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kDatagramPort},
    {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_QKEY},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_QKEY},
};

constexpr Transition kIwarp[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, 0, kPort},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kPort},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS},
};

template <size_t count>
bool allowed(const Transition (&transitions)[count], ibv_qp_state from, ibv_qp_state to, int mask) {
  for (const Transition& transition : transitions) {
    if (transition.from != from || transition.to != to) continue;
    return (mask & transition.required) == transition.required &&
           (mask & ~(transition.required | transition.optional)) == 0;
  }
  return false;
}

bool validMtu(const Context& context, const ibv_qp_attr& attr) {
  // One transition sets the path and its MTU: the transition to RTR.
  const PortConfig* port = context.config_device->config.port(attr.ah_attr.port_num);
  return port != nullptr && attr.path_mtu >= IBV_MTU_256 && attr.path_mtu <= port->mtu;
}

}  // namespace

bool transitionAllowed(ibv_qp_type type, bool iwarp, ibv_qp_state from, ibv_qp_state to, int mask) {
  mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return mask == 0;
  if (iwarp) return allowed(kIwarp, from, to, mask);
  return type == IBV_QPT_UD ? allowed(kDatagram, from, to, mask) : allowed(kConnected, from, to, mask);
}

bool validAttributes(const Context& context, const ibv_qp_attr& attr, int mask) {
  constexpr unsigned kAccess =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  return !((has(IBV_QP_PKEY_INDEX) && attr.pkey_index != 0) ||
           (has(IBV_QP_PORT) && (attr.port_num < 1 || attr.port_num > context.record->port_count)) ||
           (has(IBV_QP_ACCESS_FLAGS) && (attr.qp_access_flags & ~kAccess) != 0) ||
           (has(IBV_QP_AV) && !validAddress(context, attr.ah_attr)) ||
           (has(IBV_QP_PATH_MTU) && !validMtu(context, attr)) ||
           (has(IBV_QP_DEST_QPN) && attr.dest_qp_num > 0xffffff) ||
           (has(IBV_QP_MAX_DEST_RD_ATOMIC) && attr.max_dest_rd_atomic > kMaxRdAtomic) ||
           (has(IBV_QP_MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > kMaxRdAtomic) ||
           (has(IBV_QP_MIN_RNR_TIMER) && attr.min_rnr_timer > 31) ||
           (has(IBV_QP_TIMEOUT) && attr.timeout > 31) || (has(IBV_QP_RETRY_CNT) && attr.retry_cnt > 7) ||
           (has(IBV_QP_RNR_RETRY) && attr.rnr_retry > 7));
}

void storeAttributes(ibv_qp_attr& to, const ibv_qp_attr& from, int mask) {
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_PKEY_INDEX)) to.pkey_index = from.pkey_index;
  if (has(IBV_QP_PORT)) to.port_num = from.port_num;
  if (has(IBV_QP_QKEY)) to.qkey = from.qkey;
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
  if (has(IBV_QP_EN_SQD_ASYNC_NOTIFY)) to.en_sqd_async_notify = from.en_sqd_async_notify;
}

}  // namespace railwise::softdev
