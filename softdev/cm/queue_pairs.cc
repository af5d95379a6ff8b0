// Queue pairs of the connection manager (rdma_create_qp(3), rdma_init_qp_attr(3)). A queue pair is either
// made on an id, or it is the program's own; for the latter the program queries the attributes. On iWARP only
// the manager brings queue pairs up, and finds them by their number.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softdev/cm/objects.h"
#include "softdev/fabric/ports.h"
#include "softdev/verbs/iwarp.h"

namespace railwise::softdev::cm {
namespace {

constexpr uint8_t kUsualTimeout = 18;  // about one second

void initAttributes(const Id& id, ibv_qp_attr* attr, int* mask) {
  attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  attr->port_num = id.port_num;
  *mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT;
  if (id.iwarp()) return;
  attr->pkey_index = 0;
  *mask |= IBV_QP_PKEY_INDEX;
}

// The entry of our GID table that has the id's source address. If two entries have it, the later one, which
// is RoCE v2.
int sourceIndex(const Id& id) {
  const PortRecord& port = portOf(id);
  int found = 0;
  for (uint32_t i = 0; i < std::min(port.gid_count.load(std::memory_order_acquire), kMaxGids); ++i) {
    if (std::memcmp(port.gids[i].raw, id.source.ip, sizeof id.source.ip) == 0) found = static_cast<int>(i);
  }
  return found;
}

void pathAttributes(const Id& id, ibv_ah_attr* path) {
  path->port_num = id.port_num;
  if (portOf(id).link_layer == IBV_LINK_LAYER_INFINIBAND) {
    path->dlid = static_cast<uint16_t>(id.remote.lid);
    return;
  }
  constexpr uint8_t kHopLimit = 64;
  path->is_global = 1;
  std::memcpy(path->grh.dgid.raw, id.destination.ip, sizeof path->grh.dgid.raw);
  path->grh.sgid_index = static_cast<uint8_t>(sourceIndex(id));
  path->grh.hop_limit = kHopLimit;
  path->grh.traffic_class = id.traffic_class;
}

void receiveAttributes(const Id& id, ibv_qp_attr* attr, int* mask) {
  pathAttributes(id, &attr->ah_attr);
  attr->path_mtu = std::min(id.device->config.port(id.port_num)->mtu, static_cast<ibv_mtu>(id.remote.mtu));
  attr->dest_qp_num = id.remote.qp_num;
  attr->max_dest_rd_atomic = id.responder_resources;
  *mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

void sendAttributes(const Id& id, ibv_qp_attr* attr, int* mask) {
  attr->timeout = id.ack_timeout != 0 ? id.ack_timeout : kUsualTimeout;
  attr->retry_cnt = id.retry_count;
  attr->rnr_retry = id.rnr_retry_count;
  attr->max_rd_atomic = id.initiator_depth;
  *mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
          IBV_QP_MAX_QP_RD_ATOMIC;
}

int enter(Id& id, ibv_qp_state state) {
  ibv_qp_attr attr{};
  int mask = 0;
  attr.qp_state = state;
  if (const int error = attributes(id, &attr, &mask); error != 0) return error;
  return modifyQp(id.qp, &attr, mask);
}

}  // namespace

int attributes(Id& id, ibv_qp_attr* attr, int* mask) {
  const ibv_qp_state state = attr->qp_state;
  if (id.device == nullptr) return EINVAL;
  const bool answered = id.remote.magic == kMessageMagic;
  *attr = {};
  attr->qp_state = state;
  *mask = 0;
  switch (state) {
    case IBV_QPS_INIT:
      initAttributes(id, attr, mask);
      return 0;
    case IBV_QPS_RTR:
    case IBV_QPS_RTS:
      if (id.iwarp()) return 0;  // the program has nothing to change
      if (!answered) return EINVAL;
      state == IBV_QPS_RTR ? receiveAttributes(id, attr, mask) : sendAttributes(id, attr, mask);
      return 0;
    default:
      return EINVAL;
  }
}

int bringUp(Id& id) {
  if (id.iwarp()) return connectIwarp(id.verbs, id.qp_num, id.remote.qp_num, id.remote.gid);
  if (id.qp == nullptr) return 0;
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    if (const int error = enter(id, state); error != 0) return error;
  }
  return 0;
}

void bringDown(Id& id) {
  if (id.iwarp()) return disconnectIwarp(id.verbs, id.qp_num);
  if (id.qp == nullptr) return;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  (void)modifyQp(id.qp, &attr, IBV_QP_STATE);
}

int createQp(rdma_cm_id* base, ibv_pd* pd, ibv_qp_init_attr* attr) {
  Id& id = *static_cast<Id*>(base);
  std::lock_guard lock(manager().mutex);
  if (id.device == nullptr || id.qp != nullptr || pd == nullptr || pd->context != id.verbs)
    return answer(EINVAL);  // the PD must be of the manager's own context, as with librdmacm
  ibv_qp* qp = softdev::createQp(pd, attr);
  if (qp == nullptr) return -1;
  id.qp = qp;
  if (const int error = enter(id, IBV_QPS_INIT); error != 0) {
    id.qp = nullptr;
    (void)softdev::destroyQp(qp);
    return answer(error);
  }
  id.pd = pd;
  id.send_cq = attr->send_cq;
  id.recv_cq = attr->recv_cq;
  id.srq = attr->srq;
  return 0;
}

void destroyQp(rdma_cm_id* base) {
  Id& id = *static_cast<Id*>(base);
  ibv_qp* qp = nullptr;
  {
    std::lock_guard lock(manager().mutex);
    qp = std::exchange(id.qp, nullptr);
  }
  if (qp != nullptr) (void)softdev::destroyQp(qp);
}

int initQpAttr(rdma_cm_id* base, ibv_qp_attr* attr, int* mask) {
  Id& id = *static_cast<Id*>(base);
  std::lock_guard lock(manager().mutex);
  return answer(attributes(id, attr, mask));
}

}  // namespace railwise::softdev::cm
