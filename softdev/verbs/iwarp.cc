#include "softdev/verbs/iwarp.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "softdev/fabric/process_locks.h"
#include "softdev/verbs/transitions.h"

namespace railwise::softdev {
namespace {

// Queue pairs by number, which is unique on the fabric. A queue pair is not destroyed while the mutex is
// held.
std::map<uint32_t, Qp*>& g_queue_pairs = *new std::map<uint32_t, Qp*>;

// The caller holds the mutex. A connection manager has a context of its own, so only the device is compared.
Qp* find(const ibv_context* context, uint32_t qp_num) {
  const auto found = g_queue_pairs.find(qp_num);
  if (found == g_queue_pairs.end()) return nullptr;
  return found->second->qp_base.context->device == context->device ? found->second : nullptr;
}

int toInit(Qp& qp) {
  if (qp.currentState() != IBV_QPS_RESET) return 0;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  return changeState(qp, attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, true);
}

int toRtr(Qp& qp, uint32_t dest_qp_num, const uint8_t (&gid)[16]) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.dest_qp_num = dest_qp_num;
  attr.path_mtu = IBV_MTU_256;  // iWARP queue pairs have no packets of their own, because TCP cuts the stream
  attr.max_dest_rd_atomic = kMaxRdAtomic;
  attr.ah_attr.port_num = std::max<uint8_t>(qp.attr.port_num, 1);
  attr.ah_attr.is_global = 1;
  std::memcpy(attr.ah_attr.grh.dgid.raw, gid, sizeof gid);
  return changeState(qp, attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                     false);
}

int toRts(Qp& qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.max_rd_atomic = kMaxRdAtomic;
  // Data that is sent before the peer knows that it is connected waits there, in the socket. The timeout
  // allows half a minute for that.
  attr.timeout = 20;
  attr.retry_cnt = 7;
  return changeState(qp, attr,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC,
                     false);
}

}  // namespace

IwarpPlace makeIwarpPlace() {
  std::map<uint32_t, Qp*> one{{0, nullptr}};
  return one.extract(one.begin());
}

void addIwarp(Qp& qp, IwarpPlace place) {
  std::lock_guard lock(processLock(ProcessLock::kIwarp));
  g_queue_pairs.erase(qp.qp_base.qp_num);
  place.key() = qp.qp_base.qp_num;
  place.mapped() = &qp;
  g_queue_pairs.insert(std::move(place));
}

void removeIwarp(Qp& qp) {
  std::lock_guard lock(processLock(ProcessLock::kIwarp));
  const auto found = g_queue_pairs.find(qp.qp_base.qp_num);
  if (found != g_queue_pairs.end() && found->second == &qp) g_queue_pairs.erase(found);
}

int connectIwarp(const ibv_context* context, uint32_t qp_num, uint32_t dest_qp_num,
                 const uint8_t (&gid)[16]) {
  std::lock_guard lock(processLock(ProcessLock::kIwarp));
  Qp* qp = find(context, qp_num);
  if (qp == nullptr) return ENOENT;
  if (const int error = toInit(*qp); error != 0) return error;
  if (const int error = toRtr(*qp, dest_qp_num, gid); error != 0) return error;
  return toRts(*qp);
}

void disconnectIwarp(const ibv_context* context, uint32_t qp_num) {
  std::lock_guard lock(processLock(ProcessLock::kIwarp));
  Qp* qp = find(context, qp_num);
  if (qp == nullptr || qp->currentState() == IBV_QPS_RESET) return;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  (void)changeState(*qp, attr, IBV_QP_STATE, true);
}

}  // namespace railwise::softdev
