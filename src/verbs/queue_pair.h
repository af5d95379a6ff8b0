// Reliable-connected queue pairs: creation and the transitions INIT, RTR, RTS.
// Every error is logged once with device, port, queue pair, the transition and what to check, and returned as
// kSystem; but ETIMEDOUT at INFO only: the peer's address is not resolved yet, and another try is worth it.
#pragma once

#include <optional>

#include "base/config.h"
#include "verbs/gid.h"
#include "verbs/handles.h"
#include "verbs/port.h"

namespace railwise::verbs {

// One outstanding read is enough: only flushes read, and one flush at a time decides.
constexpr uint8_t kReadDepth = 1;
// Receiver-not-ready timer code 12 = 0.64 ms (InfiniBand specification, table 46), net_ib's value.
constexpr uint8_t kMinRnrTimer = 12;
// RNR retry code 7: for ever. A receive is always posted before the sender is told to send, so this never
// bites.
constexpr uint8_t kRnrRetry = 7;

// What the other end must know of a queue pair to reach it.
struct PathAddress {
  uint32_t qp_number = 0;
  uint16_t lid = 0;
  bool ethernet = false;
  ibv_mtu mtu = IBV_MTU_1024;
  ibv_gid gid = {};
};

// Enhanced connection establishment: what the devices of both ends can do beyond the standard, as plain
// values for a handshake. The sender queries its own after createQueuePair and tells the receiver; the
// receiver sets it (PathSettings) on the way to RTR, queries what its device has made of it and answers; the
// sender sets that.
struct Ece {
  uint32_t vendor = 0;
  uint32_t options = 0;
  uint32_t comp_mask = 0;
  bool operator==(const Ece&) const = default;
};

struct QueuePairSize {
  uint32_t send_requests;
  uint32_t receive_requests;
  uint32_t inline_bytes;  // wanted; what the device granted is in the result
};

// Messages may be delivered in any order, which adaptive routing needs to spread one message's packets
// (mlx5dv_create_qp(3), MLX5DV_QP_CREATE_OOO_DP). Both ends of a connection must agree. Completions still
// come in order; what must not be relied on is the order in which memory changes.
enum class OutOfOrder : uint8_t {
  kNo,
  kIfPossible,  // for the end that creates first; QueuePair::out_of_order tells what came of it
  kRequired,    // for the end that follows: an error when it cannot be had
};

struct QueuePair {
  Qp qp;
  uint32_t inline_bytes = 0;
  bool out_of_order = false;
};

// In state INIT, with remote write and read allowed. Fewer inline bytes than asked for is no error.
Result<QueuePair> createQueuePair(ibv_pd* pd, ibv_cq* cq, const Port& port, const Config& config,
                                  QueuePairSize size, OutOfOrder out_of_order = OutOfOrder::kNo);

// How many receives an out-of-order queue pair of this device can have; 0: it has none, or NCCL_IB_OOO_RQ is
// off. Both ends must have as many as they post. For the handshake.
uint32_t outOfOrderReceives(ibv_context* context, const Config& config);

struct PathSettings {
  Gid local_gid;
  uint8_t service_level;
  uint8_t traffic_class;
  uint32_t flow_label = 0;      // RoCE: laneFlowLabel() (path.h); 0: the device chooses
  std::optional<Ece> ece = {};  // what the peer said, none: it has none or ours has none
  uint32_t psn = 0;             // of the first packet, 24 bits; both ends say the same
};

// The traffic class of the queue pairs that a receiver sends its clear-to-send by: NCCL_IB_FIFO_TC on RoCE,
// else the sender's own.
uint8_t clearToSendTrafficClass(const Port& port, const Config& config, uint8_t senders);

// INIT to RTR towards `remote` (MTU: the smaller of both ends), and RTR to RTS. On InfiniBand the path leaves
// the subnet by the peer's FLID when the GIDs say so.
Status readyToReceive(ibv_qp* qp, const Port& local, const PathAddress& remote, const PathSettings& settings);
Status readyToSend(ibv_qp* qp, const Port& local, const Config& config, uint32_t psn = 0);

// What the device offers (before RTR) or has agreed to (after RTR); none when it has no ECE or
// NCCL_IB_ECE_ENABLE is 0.
std::optional<Ece> queryEce(ibv_qp* qp, const Config& config);

}  // namespace railwise::verbs
