#include "verbs/queue_pair.h"

#include <endian.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/few_lines.h"
#include "verbs/drivers/mlx5.h"
#include "verbs/gid.h"

namespace railwise::verbs {
namespace {

constexpr uint8_t kHopLimit = 255;

Status modifyFailed(ibv_qp* qp, const Port& port, const char* transition, int error, const char* advice) {
  const std::string text = std::string(library().get_device_name(qp->context->device)) + " port " +
                           std::to_string(port.number) + " qp " + std::to_string(qp->qp_num) +
                           ": transition to " + transition + " failed: " + std::strerror(error) + advice;
  static FewLines lines;
  if (error == ETIMEDOUT) {  // the address is not resolved yet; the caller tries again
    RAILWISE_INFO(log::kNet, "%s", text.c_str());
  } else {
    lines.warn(text);
  }
  return {Code::kSystem, error};
}

// The index of the partition key that the settings name. Source: NCCL 2.31.2, net_ib/connect.cc
// (ncclIbGetPkeyIndex): the lower 15 bits of a key are its number, and bit 15 says whether the port is a full
// member. kInvalidUsage, logged: the port has no such key.
Result<uint16_t> partitionIndex(ibv_context* context, const Port& port, const Config& config) {
  constexpr unsigned kNumber = 0x7fff;
  if (config.ib_pkey_value < 0 || port.iwarp) return static_cast<uint16_t>(config.ib_pkey_index);
  for (int index = 0; index < port.pkey_entries; ++index) {
    __be16 key = 0;
    if (library().query_pkey(context, port.number, index, &key) != 0) break;
    if (((be16toh(key) ^ static_cast<unsigned>(config.ib_pkey_value)) & kNumber) == 0)
      return static_cast<uint16_t>(index);
  }
  RAILWISE_WARN(
      "%s port %u: NCCL_IB_PKEY_VALUE=0x%x is none of the port's %d partition keys (`cat "
      "/sys/class/infiniband/%s/ports/%u/pkeys/*` lists them): ask the subnet manager's administrator, or "
      "unset it",
      context->device->name, port.number, static_cast<unsigned>(config.ib_pkey_value), port.pkey_entries,
      context->device->name, port.number);
  return Status{Code::kInvalidUsage};
}

Status initialise(ibv_qp* qp, const Port& port, const Config& config, PeerMay peer_may) {
  const Result<uint16_t> partition_index = partitionIndex(qp->context, port, config);
  if (!partition_index.ok()) return partition_index.status();
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = *partition_index;
  attributes.port_num = port.number;
  attributes.qp_access_flags = static_cast<unsigned>(peer_may);
  const int partition = port.iwarp ? 0 : IBV_QP_PKEY_INDEX;  // iWARP has no partition keys
  const int mask = IBV_QP_STATE | partition | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  const int error = library().modify_qp(qp, &attributes, mask);
  return error == 0 ? Status::success() : modifyFailed(qp, port, "INIT", error, " (check NCCL_IB_PKEY)");
}

// Some devices refuse a request for too many inline bytes, where others grant fewer; so this tries with
// fewer. Null with the reason in `error`. On success `attributes` has what was granted.
template <typename Create>
Qp createWithInline(ibv_qp_init_attr& attributes, int& error, InlineLimits* limits, bool out_of_order,
                    Create&& create) {
  ibv_qp_init_attr wanted = attributes;
  const InlineLimits::Shape shape = {wanted.cap.max_send_wr, wanted.cap.max_recv_wr, out_of_order};
  uint32_t& bytes = wanted.cap.max_inline_data;
  if (limits != nullptr) bytes = limits->askFor(shape, bytes);
  uint32_t refused = 0;
  for (;;) {
    attributes = wanted;
    Qp qp(makeOrExplain([&] { return create(attributes); }, error));
    if (qp != nullptr && refused != 0 && limits != nullptr) limits->note(shape, refused);
    if (qp != nullptr || bytes == 0) return qp;
    // Other refusals, for example for want of memory, may pass.
    refused = error == EINVAL ? bytes : 0;
    bytes /= 2;
  }
}

void reportInOrder(const char* device, const char* reason) {
  static std::atomic_flag reported;
  if (reported.test_and_set()) return;
  RAILWISE_INFO(log::kNet, "%s: NCCL_IB_OOO_RQ=1, but %s: queue pairs take their messages in order", device,
                reason);
}

// A refusal is no error, because the connection also works without the peer's ECE.
void setEce(ibv_qp* qp, const Ece& ece) {
  if (library().set_ece == nullptr) return;
  ibv_ece wanted = {ece.vendor, ece.options, ece.comp_mask};
  if (const int error = library().set_ece(qp, &wanted); error != 0) {
    RAILWISE_INFO(log::kNet, "%s qp %u: the peer's ECE (vendor 0x%x, options 0x%x) is not taken: %s",
                  library().get_device_name(qp->context->device), qp->qp_num, ece.vendor, ece.options,
                  std::strerror(error));
  }
}

// On InfiniBand the path to another subnet uses the FLID, which leads to the port through a router.
void setLocalRoute(ibv_ah_attr& path, const PathAddress& remote, bool other_subnet) {
  const uint16_t flid = other_subnet ? routableLid(remote.gid) : 0;
  path.dlid = flid != 0 ? flid : remote.lid;
}

}  // namespace

Result<QueuePair> createQueuePair(ibv_pd* pd, ibv_cq* cq, const Port& port, const Config& config,
                                  QueuePairSize size, OutOfOrder out_of_order, InlineLimits* limits,
                                  PeerMay peer_may) {
  const char* name = library().get_device_name(pd->context->device);
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
  int error = 0;
  ibv_qp_init_attr granted = wanted;
  if (out_of_order != OutOfOrder::kNo) {
    made.qp = createWithInline(granted, error, limits, true,
                               [pd](auto& attributes) { return createOutOfOrderQp(pd, attributes); });
    made.out_of_order = made.qp != nullptr;
    if (!made.out_of_order && out_of_order == OutOfOrder::kIfPossible)
      reportInOrder(name, "the device refuses such a queue pair");
  }
  if (made.qp == nullptr && out_of_order != OutOfOrder::kRequired) {
    granted = wanted;
    made.qp = createWithInline(granted, error, limits, false,
                               [pd](auto& attributes) { return library().create_qp(pd, &attributes); });
  }
  if (made.qp == nullptr) {
    static FewLines lines;
    lines.warn(std::string(name) + " port " + std::to_string(port.number) + ": a" +
               (out_of_order == OutOfOrder::kRequired ? "n out-of-order" : "") + " queue pair with " +
               std::to_string(size.send_requests) + " send and " + std::to_string(size.receive_requests) +
               " receive requests cannot be made: " + std::strerror(error));
    return Status{Code::kSystem, error};
  }
  made.inline_bytes = granted.cap.max_inline_data;
  RAILWISE_TRY(initialise(made.qp.get(), port, config, peer_may));
  return made;
}

uint32_t outOfOrderReceives(ibv_context* context, const Config& config) {
  if (config.ib_ooo_rq == 0) return 0;
  const uint32_t receives = mlx5OutOfOrderReceives(context);
  if (receives == 0)
    reportInOrder(library().get_device_name(context->device),
                  "the device or its driver offers no such queue pairs");
  return receives;
}

uint8_t clearToSendTrafficClass(const Port& port, const Config& config, uint8_t senders) {
  return port.ethernet && config.ib_fifo_traffic_class >= 0
             ? static_cast<uint8_t>(config.ib_fifo_traffic_class)
             : senders;
}

std::optional<Ece> queryEce(ibv_qp* qp, const Config& config) {
  ibv_ece ece = {};
  if (config.ib_ece_enable == 0 || library().query_ece == nullptr || library().query_ece(qp, &ece) != 0)
    return std::nullopt;
  return Ece{ece.vendor_id, ece.options, ece.comp_mask};
}

uint8_t readsAtOnce(const ibv_device_attr& device) {
  const int most = std::min(device.max_qp_rd_atom, device.max_qp_init_rd_atom);
  return static_cast<uint8_t>(std::clamp<int>(most, 1, kReadDepth));
}

Status readyToReceive(ibv_qp* qp, const Port& local, const PathAddress& remote,
                      const PathSettings& settings) {
  if (settings.ece.has_value()) setEce(qp, *settings.ece);
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = std::min(local.mtu, remote.mtu);
  attributes.dest_qp_num = remote.qp_number;
  attributes.rq_psn = settings.psn;
  attributes.max_dest_rd_atomic = settings.reads;
  attributes.min_rnr_timer = kMinRnrTimer;
  ibv_ah_attr& path = attributes.ah_attr;
  path.port_num = local.number;
  path.sl = settings.service_level;
  const ibv_gid& local_gid = settings.local_gid.value;
  const bool other_subnet = !local.ethernet && onOtherSubnet(local_gid, remote.gid);
  path.is_global = local.ethernet || local.grh_required || other_subnet;
  if (path.is_global != 0) {
    path.grh.dgid = remote.gid;
    path.grh.sgid_index = static_cast<uint8_t>(settings.local_gid.index);
    path.grh.hop_limit = kHopLimit;
    path.grh.traffic_class = settings.traffic_class;
    path.grh.flow_label = settings.flow_label;
  }
  if (!local.ethernet) setLocalRoute(path, remote, other_subnet);
  const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  const int error = library().modify_qp(qp, &attributes, mask);
  if (error == 0) return Status::success();
  const std::string route = " (from GID index " + std::to_string(settings.local_gid.index) + " " +
                            gidText(local_gid) + " to " + gidText(remote.gid) +
                            "; check NCCL_IB_GID_INDEX and the route between them)";
  return modifyFailed(qp, local, "RTR", error, route.c_str());
}

Status readyToSend(ibv_qp* qp, const Port& local, const Config& config, uint32_t psn, uint8_t reads) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = static_cast<uint8_t>(config.ib_timeout);
  attributes.retry_cnt = static_cast<uint8_t>(config.ib_retry_count);
  attributes.rnr_retry = kRnrRetry;
  attributes.sq_psn = psn;
  attributes.max_rd_atomic = reads;
  const int mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                   IBV_QP_MAX_QP_RD_ATOMIC;
  const int error = library().modify_qp(qp, &attributes, mask);
  return error == 0 ? Status::success() : modifyFailed(qp, local, "RTS", error, "");
}

namespace {

constexpr uint32_t kPortBits = 14;  // bits of the offset from UDP port 0xc000
constexpr uint32_t kPortMask = (1U << kPortBits) - 1;
constexpr uint32_t kHighMask = (1U << (20 - kPortBits)) - 1;  // the bits of a label above kPortBits
constexpr uint16_t kFirstPort = 0xc000;                       // the dynamic ports, RoCE v2 annex A17.9.2

// Odd, so that the sequence reaches every port before it repeats. Large, so that the flow labels of
// neighbouring lanes differ in many of the bits that a switch hashes.
constexpr uint32_t kLaneStride = 0x1a2b;
static_assert(kLaneStride % 2 == 1 && kLaneStride <= kPortMask);

// Every bit of the result depends on every bit of `value` (the finalizer of MurmurHash3).
uint32_t mix(uint32_t value) {
  value = (value ^ value >> 16) * 0x85ebca6b;
  value = (value ^ value >> 13) * 0xc2b2ae35;
  return value ^ value >> 16;
}

uint16_t subnetNumber(const ibv_gid& gid) { return static_cast<uint16_t>(gid.raw[6] << 8 | gid.raw[7]); }

}  // namespace

uint16_t udpSourcePort(uint32_t flow_label) {
  const uint32_t low = flow_label & kPortMask;
  const uint32_t high = flow_label >> kPortBits & kHighMask;
  return static_cast<uint16_t>(kFirstPort | (low ^ high));
}

uint32_t laneFlowLabel(uint32_t entropy, uint32_t lane) {
  const uint32_t mixed = mix(entropy);
  const uint32_t port = (mixed + lane * kLaneStride) & kPortMask;
  const uint32_t high = 1 + (mixed >> kPortBits) % kHighMask;  // 1 to 63: the label is not 0
  return high << kPortBits | (port ^ high);
}

bool onOtherSubnet(const ibv_gid& local, const ibv_gid& remote) {
  if (routableLid(local) != 0 || routableLid(remote) != 0) return subnetNumber(local) != subnetNumber(remote);
  return local.global.subnet_prefix != remote.global.subnet_prefix;
}

}  // namespace railwise::verbs
