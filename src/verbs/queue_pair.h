// Reliable-connected queue pairs: creation and the transitions INIT, RTR, RTS; rules of the path between two
// ports.
// Every error is returned as kSystem and logged once with device, port, queue pair, the transition and what
// to check. ETIMEDOUT is logged only at INFO: it means that the peer's address is not resolved yet, and that
// another try makes sense.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/light_mutex.h"
#include "base/settings/config.h"
#include "verbs/gid.h"
#include "verbs/handles.h"
#include "verbs/port.h"

namespace railwise::verbs {

// Which requests for inline bytes a device has refused, so that it refuses each of them once and not for each
// queue pair. Thread-safe.
class InlineLimits {
 public:
  // What a device's answer depends on: a queue pair with more requests may have fewer inline bytes.
  struct Shape {
    uint32_t send_requests;
    uint32_t receive_requests;
    bool out_of_order;
    bool operator==(const Shape&) const = default;
  };

  // What to ask for: `wanted`, halved until it is less than what was refused.
  uint32_t askFor(const Shape& shape, uint32_t wanted) const {
    const std::lock_guard lock(mutex_);
    for (const Refused& each : refused_) {
      if (each.shape != shape) continue;
      while (wanted >= each.bytes) wanted /= 2;
    }
    return wanted;
  }
  // The device has refused `bytes` (not 0) and granted fewer.
  void note(const Shape& shape, uint32_t bytes) {
    const std::lock_guard lock(mutex_);
    refused_.push_back({shape, bytes});
  }

 private:
  struct Refused {
    Shape shape;
    uint32_t bytes;
  };
  mutable LightMutex mutex_;
  std::vector<Refused> refused_;  // few: a connection has three kinds of queue pairs
};

// So many reads of a queue pair are under way at most: gets, and on iWARP the read behind each segment of
// data. The device may allow fewer (readsAtOnce()). One is enough for flushes: one at a time decides. So is
// one where RDMA CM connects InfiniBand or RoCE, which tells no end what the other one can answer.
constexpr uint8_t kReadDepth = 16;
constexpr uint8_t kFlushReadDepth = 1;
// Code 12 of the receiver-not-ready timer is 0.64 ms (InfiniBand specification, table 46); net_ib uses it
// too.
constexpr uint8_t kMinRnrTimer = 12;
// RNR retry code 7: retry for ever. A receive is always posted before the sender may send, so the retry never
// happens.
constexpr uint8_t kRnrRetry = 7;

// What the peer must know about a queue pair to reach it.
struct PathAddress {
  uint32_t qp_number = 0;
  uint16_t lid = 0;
  bool ethernet = false;
  ibv_mtu mtu = IBV_MTU_1024;
  ibv_gid gid = {};
};

// Enhanced connection establishment: what the devices of both ends can do beyond the standard, as plain
// values for a handshake. The sender queries its options after createQueuePair() and sends them to the
// receiver. The receiver sets them (PathSettings) on the way to RTR, queries what its device has agreed to
// and sends that back. The sender sets the answer.
struct Ece {
  uint32_t vendor = 0;
  uint32_t options = 0;
  uint32_t comp_mask = 0;
  bool operator==(const Ece&) const = default;
};

struct QueuePairSize {
  uint32_t send_requests;
  uint32_t receive_requests;
  uint32_t inline_bytes;  // requested; the result has what the device granted
};

// Messages may be delivered in any order. Adaptive routing needs that to spread the packets of one message
// (mlx5dv_create_qp(3), MLX5DV_QP_CREATE_OOO_DP). Both ends of a connection must agree. Completions still
// come in order, but the order in which memory changes is undefined.
enum class OutOfOrder : uint8_t {
  kNo,
  kIfPossible,  // for the end that creates first; QueuePair::out_of_order has the result
  kRequired,    // for the end that follows: an error if the device cannot do it
};

// What the other end of a queue pair may do to registered memory whose key it has. Only those may read who
// must: who gives a sender its keys needs not be read by it.
enum class PeerMay : uint8_t {
  kWrite = IBV_ACCESS_REMOTE_WRITE,
  kRead = IBV_ACCESS_REMOTE_READ,
  kReadAndWrite = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
};

struct QueuePair {
  Qp qp;
  uint32_t inline_bytes = 0;
  bool out_of_order = false;
};

// Creates a queue pair in state INIT. Fewer inline bytes than requested are no error. `limits`: what this
// device has refused before, and receives what it refuses now; null: nothing is known of that.
Result<QueuePair> createQueuePair(ibv_pd* pd, ibv_cq* cq, const Port& port, const Config& config,
                                  QueuePairSize size, OutOfOrder out_of_order = OutOfOrder::kNo,
                                  InlineLimits* limits = nullptr, PeerMay peer_may = PeerMay::kWrite);

// How many receives an out-of-order queue pair of this device can have. 0: the device has no such queue
// pairs, or NCCL_IB_OOO_RQ is off. Both ends must have room for as many as they post. Used in the handshake.
uint32_t outOfOrderReceives(ibv_context* context, const Config& config);

struct PathSettings {
  Gid local_gid;
  uint8_t service_level;
  uint8_t traffic_class;
  uint32_t flow_label = 0;          // RoCE: laneFlowLabel() (path.h); 0: the device chooses
  std::optional<Ece> ece = {};      // options from the peer; none: the peer has none or our device has none
  uint32_t psn = 0;                 // number of the first packet, 24 bits; equal at both ends
  uint8_t reads = kFlushReadDepth;  // of the peer, which are answered at once
};

// How many reads a queue pair of this device can have under way, and can answer at once: 1 to kReadDepth.
uint8_t readsAtOnce(const ibv_device_attr& device);

// The traffic class of the queue pairs by which a receiver sends its clear-to-sends: NCCL_IB_FIFO_TC on RoCE,
// otherwise `senders`, the sender's own class.
uint8_t clearToSendTrafficClass(const Port& port, const Config& config, uint8_t senders);

// readyToReceive: INIT to RTR towards `remote`, with the smaller MTU of both ends. readyToSend: RTR to RTS,
// with so many reads under way at most.
// On InfiniBand the path leaves the subnet by the peer's FLID if the GIDs require that.
Status readyToReceive(ibv_qp* qp, const Port& local, const PathAddress& remote, const PathSettings& settings);
Status readyToSend(ibv_qp* qp, const Port& local, const Config& config, uint32_t psn = 0,
                   uint8_t reads = kFlushReadDepth);

// What the device offers (before RTR) or has agreed to (after RTR). None if the device has no ECE or
// NCCL_IB_ECE_ENABLE is 0.
std::optional<Ece> queryEce(ibv_qp* qp, const Config& config);

// Pure rules of the path between two ports: the UDP source port of a RoCE flow, and whether two InfiniBand
// ports are on different subnets. Any thread.

// The UDP source port of the RoCE v2 packets of a queue pair with this flow label. Switches use it to spread
// flows over equal-cost paths. Source: rdma_flow_label_to_udp_sport of the kernel (include/rdma/ib_verbs.h),
// 14 bits above 0xc000. With label 0 the device chooses the port from the numbers of the queue pairs.
uint16_t udpSourcePort(uint32_t flow_label);

// The flow label (20 bits, never 0) of lane `lane` of a connection. Lanes with equal `entropy` (any value
// that differs between connections) have different UDP source ports, up to 16384 lanes.
uint32_t laneFlowLabel(uint32_t entropy, uint32_t lane);

// Are two InfiniBand ports on different subnets? If one of the GIDs has a routable LID (gid.h), compares
// bytes 6 and 7, the number of the subnet (NCCL 2.30.7, net_ib/connect.cc); otherwise compares the whole
// prefixes.
bool onOtherSubnet(const ibv_gid& local, const ibv_gid& remote);

}  // namespace railwise::verbs
