#include "verbs/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace railwise::verbs {
namespace {

// One outstanding read is enough: only flushes read, and one flush at a time decides.
constexpr uint8_t kReadDepth = 1;
// Receiver-not-ready timer code 12 = 0.64 ms (InfiniBand specification, table 46), net_ib's value.
constexpr uint8_t kMinRnrTimer = 12;
// RNR retry code 7: for ever. A receive is always posted before the sender is told to send, so this never
// bites.
constexpr uint8_t kRnrRetry = 7;
constexpr uint8_t kHopLimit = 255;

Status modifyFailed(ibv_qp* qp, const Port& port, const char* transition, int error, const char* advice) {
  const std::string text = std::string(library().get_device_name(qp->context->device)) + " port " +
                           std::to_string(port.number) + " qp " + std::to_string(qp->qp_num) +
                           ": transition to " + transition + " failed: " + std::strerror(error) + advice;
  if (error == ETIMEDOUT) {  // an address that is not resolved yet; the caller tries again
    RAILWISE_INFO(log::kNet, "%s", text.c_str());
  } else {
    RAILWISE_WARN("%s", text.c_str());
  }
  return {Code::kSystem, error};
}

Status initialise(ibv_qp* qp, const Port& port, const Config& config) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = static_cast<uint16_t>(config.ib_pkey_index);
  attributes.port_num = port.number;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  const int error = library().modify_qp(qp, &attributes, mask);
  return error == 0 ? Status::success() : modifyFailed(qp, port, "INIT", error, " (check NCCL_IB_PKEY)");
}

}  // namespace

Result<QueuePair> createQueuePair(ibv_pd* pd, ibv_cq* cq, const Port& port, const Config& config,
                                  QueuePairSize size) {
  ibv_qp_init_attr wanted = {};
  wanted.send_cq = cq;
  wanted.recv_cq = cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = size.send_requests;
  wanted.cap.max_recv_wr = size.receive_requests;
  wanted.cap.max_send_sge = 1;
  wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = size.inline_bytes;
  QueuePair made;
  ibv_qp_init_attr granted = wanted;
  made.qp.reset(library().create_qp(pd, &granted));
  while (made.qp == nullptr &&
         wanted.cap.max_inline_data > 0) {  // some devices refuse instead of granting less
    wanted.cap.max_inline_data /= 2;
    granted = wanted;
    made.qp.reset(library().create_qp(pd, &granted));
  }
  if (made.qp == nullptr) {
    const int error = errno;
    RAILWISE_WARN("%s port %u: a queue pair with %u send and %u receive requests cannot be made: %s",
                  library().get_device_name(pd->context->device), port.number, size.send_requests,
                  size.receive_requests, std::strerror(error));
    return Status{Code::kSystem, error};
  }
  made.inline_bytes = granted.cap.max_inline_data;
  RAILWISE_TRY(initialise(made.qp.get(), port, config));
  return made;
}

Status readyToReceive(ibv_qp* qp, const Port& local, const PathAddress& remote,
                      const PathSettings& settings) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = std::min(local.mtu, remote.mtu);
  attributes.dest_qp_num = remote.qp_number;
  attributes.rq_psn = 0;
  attributes.max_dest_rd_atomic = kReadDepth;
  attributes.min_rnr_timer = kMinRnrTimer;
  ibv_ah_attr& path = attributes.ah_attr;
  path.port_num = local.number;
  path.sl = settings.service_level;
  const ibv_gid& local_gid = settings.local_gid.value;
  const bool other_subnet = local_gid.global.subnet_prefix != remote.gid.global.subnet_prefix;
  path.is_global = local.ethernet || local.grh_required || other_subnet;
  if (path.is_global != 0) {
    path.grh.dgid = remote.gid;
    path.grh.sgid_index = static_cast<uint8_t>(settings.local_gid.index);
    path.grh.hop_limit = kHopLimit;
    path.grh.traffic_class = settings.traffic_class;
  }
  if (!local.ethernet) path.dlid = remote.lid;
  const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  const int error = library().modify_qp(qp, &attributes, mask);
  if (error == 0) return Status::success();
  const std::string route = " (from GID index " + std::to_string(settings.local_gid.index) + " " +
                            gidText(local_gid) + " to " + gidText(remote.gid) +
                            "; check NCCL_IB_GID_INDEX and the route between them)";
  return modifyFailed(qp, local, "RTR", error, route.c_str());
}

Status readyToSend(ibv_qp* qp, const Port& local, const Config& config) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = static_cast<uint8_t>(config.ib_timeout);
  attributes.retry_cnt = static_cast<uint8_t>(config.ib_retry_count);
  attributes.rnr_retry = kRnrRetry;
  attributes.sq_psn = 0;
  attributes.max_rd_atomic = kReadDepth;
  const int mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                   IBV_QP_MAX_QP_RD_ATOMIC;
  const int error = library().modify_qp(qp, &attributes, mask);
  return error == 0 ? Status::success() : modifyFailed(qp, local, "RTS", error, "");
}

}  // namespace railwise::verbs
