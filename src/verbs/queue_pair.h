// Reliable-connected queue pairs: creation and the transitions INIT, RTR, RTS.
// Every error is logged once with device, port, queue pair, the transition and what to check, and returned as
// kSystem; but ETIMEDOUT at INFO only: the peer's address is not resolved yet, and another try is worth it.
#pragma once

#include "base/config.h"
#include "verbs/gid.h"
#include "verbs/handles.h"
#include "verbs/port.h"

namespace railwise::verbs {

// What the other end must know of a queue pair to reach it.
struct PathAddress {
  uint32_t qp_number = 0;
  uint16_t lid = 0;
  bool ethernet = false;
  ibv_mtu mtu = IBV_MTU_1024;
  ibv_gid gid = {};
};

struct QueuePairSize {
  uint32_t send_requests;
  uint32_t receive_requests;
  uint32_t inline_bytes;  // wanted; what the device granted is in the result
};

struct QueuePair {
  Qp qp;
  uint32_t inline_bytes = 0;
};

// In state INIT, with remote write and read allowed. Fewer inline bytes than asked for is no error.
Result<QueuePair> createQueuePair(ibv_pd* pd, ibv_cq* cq, const Port& port, const Config& config,
                                  QueuePairSize size);

struct PathSettings {
  Gid local_gid;
  uint8_t service_level;
  uint8_t traffic_class;
};

// INIT to RTR towards `remote` (MTU: the smaller of both ends), and RTR to RTS.
Status readyToReceive(ibv_qp* qp, const Port& local, const PathAddress& remote, const PathSettings& settings);
Status readyToSend(ibv_qp* qp, const Port& local, const Config& config);

}  // namespace railwise::verbs
