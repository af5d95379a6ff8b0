// Packet sequence numbers. The device has no packets: it counts for each request the packets that a NIC would
// number. Both ends of a connection count, the requester what has left, the responder what it has executed.
// So a query tells the live numbers, also in ERR.
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// The packet sequence numbers that a request takes. A READ takes those of its answer.
inline uint64_t packetsOf(const Qp& qp, uint64_t length) {
  return length <= qp.packet_bytes || qp.packet_bytes == 0 ? 1 : (length - 1) / qp.packet_bytes + 1;
}

// Counts a request that has left and that the responder has executed. The caller holds the peer's responder
// lock.
inline void countExecuted(Qp& qp, QpRecord& peer, uint64_t length) {
  const uint64_t packets = packetsOf(qp, length);
  qp.sent_packets += packets;
  peer.received_packets += packets;
}

// Counts the packets of such a request behind the first.
[[gnu::noinline, gnu::cold]] inline void countMorePackets(Qp& qp, QpRecord& peer, uint64_t length) {
  const uint64_t more = packetsOf(qp, length) - 1;
  qp.sent_packets += more;
  peer.received_packets += more;
}

// Counts a request that fails with `status`: its packets have left unless this end has refused it. The
// responder expects them still.
inline void countUnexecuted(Qp& qp, const Work& work, ibv_wc_status status) {
  const bool left = status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR ||
                    status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
                    status == IBV_WC_REM_OP_ERR;
  if (left) qp.sent_packets += packetsOf(qp, work.length);
}

// The PSN that follows `packets` packets, the first of which had the number `first`.
inline uint32_t nextPsn(uint32_t first, uint64_t packets) {
  constexpr uint32_t kPsnMask = 0xffffff;
  return static_cast<uint32_t>(first + packets) & kPsnMask;
}

}  // namespace railwise::softdev
