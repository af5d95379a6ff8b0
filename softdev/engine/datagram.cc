#include "softdev/engine/datagram.h"

#include <endian.h>

#include <cstring>

#include "softdev/engine/requester.h"
#include "softdev/fabric/ports.h"
#include "softdev/memory/agent.h"
#include "softdev/memory/mover.h"
#include "softdev/memory/peer_memory.h"
#include "softdev/queues/receive_claim.h"
#include "softdev/queues/responder.h"

namespace railwise::softdev {
namespace {

constexpr uint64_t kGrhBytes = sizeof(ibv_grh);
static_assert(kGrhBytes == 40);
constexpr uint64_t kMaxMtuBytes = 4096;

struct Datagram {
  std::byte bytes[kGrhBytes + kMaxMtuBytes];
  uint64_t length = 0;  // includes the place of the GRH, which is always there
  bool has_grh = false;
  uint32_t unreachable = 0;  // token of a process whose memory only its agent can write; 0: none
};

// The port with this address, or null.
const PortRecord* destination(const Qp& qp, const ibv_ah_attr& address) {
  const Segment& segment = *qp.fabric->segment;
  const PortRecord& here = segment.ports[qp.record->port];
  const PortRecord* there = nullptr;
  if (here.link_layer != IBV_LINK_LAYER_INFINIBAND) {
    there = findGid(segment, address.grh.dgid.raw, here.gids[address.grh.sgid_index].type);
  } else if (address.dlid >= 1 && address.dlid <= kMaxPorts) {
    there = &segment.ports[address.dlid - 1];
  }
  if (there == nullptr || there->guid.load(std::memory_order_acquire) == 0) return nullptr;
  return there->link_layer == here.link_layer && active(here) && active(*there) ? there : nullptr;
}

// Does `peer` accept datagrams with this number and Q_Key at this port? The caller holds the responder lock
// of `peer`.
bool listens(const QpRecord& peer, const Work& work, uint32_t port, uint32_t qkey) {
  const uint32_t state = peer.state.load(std::memory_order_relaxed);
  return peer.qp_num.load(std::memory_order_relaxed) == work.remote_qpn && peer.type == IBV_QPT_UD &&
         state >= IBV_QPS_RTR && state <= IBV_QPS_SQE && peer.port == port && peer.qkey == qkey;
}

void writeGrh(const Qp& qp, const ibv_ah_attr& address, Datagram* datagram) {
  constexpr uint32_t kVersion = 6U << 28;
  constexpr uint8_t kNextIsInfiniband = 0x1b;
  const PortRecord& here = qp.fabric->segment->ports[qp.record->port];
  ibv_grh grh{};
  grh.version_tclass_flow =
      htobe32(kVersion | uint32_t{address.grh.traffic_class} << 20 | (address.grh.flow_label & 0xfffff));
  grh.paylen = htobe16(static_cast<uint16_t>(datagram->length - kGrhBytes));
  grh.next_hdr = kNextIsInfiniband;
  grh.hop_limit = address.grh.hop_limit;
  std::memcpy(grh.sgid.raw, here.gids[address.grh.sgid_index].raw, sizeof grh.sgid.raw);
  grh.dgid = address.grh.dgid;
  std::memcpy(datagram->bytes, &grh, sizeof grh);
}

// Builds the message as it will lie in the receive.
ibv_wc_status compose(const Qp& qp, const Work& work, Datagram* datagram) {
  const PortConfig* port = as<Context>(qp.qp_base.context).config_device->config.port(qp.attr.port_num);
  const uint64_t mtu = uint64_t{128} << (port != nullptr ? port->mtu : IBV_MTU_256);
  if (work.length > mtu || work.length > qp.max_message_bytes) return IBV_WC_LOC_LEN_ERR;
  datagram->length = kGrhBytes;
  for (int i = 0; i < work.num_sge; ++i) {
    const ibv_sge& sge = work.sges[i];
    auto* from = reinterpret_cast<std::byte*>(sge.addr);  // NOLINT: the caller's memory
    if (sge.length == 0) continue;
    if (!work.inlined && !resolveKey(*qp.fabric->segment, sge.lkey, qp.pd_id, sge.addr, sge.length, 0, &from))
      return IBV_WC_LOC_PROT_ERR;
    std::memcpy(datagram->bytes + datagram->length, from, sge.length);
    datagram->length += sge.length;
  }
  const ibv_ah_attr& address = work.ah->attr;
  datagram->has_grh = address.is_global != 0;
  if (datagram->has_grh) writeGrh(qp, address, datagram);
  return IBV_WC_SUCCESS;
}

// Can the memory of this process be written? The answer is kept while the peer stays the same. *met becomes
// false if its agent must still be requested.
bool reach(Qp& qp, uint32_t token, bool* met) {
  *met = true;
  if (!peerAlive(*qp.fabric, token)) return false;
  if (qp.peer.token == token) return true;
  if (qp.peer_memory == nullptr) qp.peer_memory = std::make_unique<PeerMemory>();
  const MoverChoice mover = as<Context>(qp.qp_base.context).config_device->config.mover;
  *met = qp.peer_memory->connect(*qp.fabric, token, mover);
  qp.peer.token = *met ? token : 0;
  return *met;
}

// Writes into the memory of the process with `token`. False if it cannot be written.
bool deliver(Qp& qp, uint32_t token, Datagram& datagram, const Pieces& target) {
  if (token == qp.fabric->self.token) {
    Pieces source;
    source.list[source.count++] = {datagram.bytes, datagram.length};
    copyHere(target.list, target.count, source);
    return true;
  }
  bool met = true;
  if (!reach(qp, token, &met)) {
    if (!met) datagram.unreachable = token;
    return false;
  }
  iovec local{datagram.bytes, datagram.length};
  iovec remote[kMaxSge];
  for (int i = 0; i < target.count; ++i) remote[i] = {target.list[i].address, target.list[i].length};
  int error = 0;
  uint64_t calls = 0;
  qp.peer_memory->transfer(true, &local, 1, remote, target.count, &error, &calls);
  qp.record->counters.system_calls.add(calls);
  return error == 0;
}

// The receiver's side. The caller holds the receiver's responder lock.
void arrive(Qp& qp, const Work& work, QpRecord& peer, Datagram& datagram) {
  Fabric& fabric = *qp.fabric;
  if (receivesPosted(peer) == 0 && (peer.srq == 0 || !claimReceive(fabric, peer, 0))) return;
  Arrival arrival;
  arrival.src_qp = qp.qp_base.qp_num;
  arrival.slid = qp.lid;
  Pieces target;
  const ibv_wc_status status =
      scatterReceive(*fabric.segment, peer, 0, datagram.length, target.list, &target.count);
  if (status == IBV_WC_LOC_LEN_ERR) return;  // too long for the receive, so it is lost
  if (status != IBV_WC_SUCCESS) {
    arrival.status = status;
    completeReceive(fabric, peer, arrival);
    return enterError(fabric, peer);
  }
  if (!deliver(qp, peer.owner.load(std::memory_order_acquire), datagram, target)) return;
  arrival.byte_len = static_cast<uint32_t>(datagram.length);
  arrival.has_imm = work.opcode == IBV_WR_SEND_WITH_IMM;
  arrival.has_grh = datagram.has_grh;
  arrival.solicited = work.solicited;
  arrival.imm_data = work.imm_data;
  completeReceive(fabric, peer, arrival);
}

void transmit(Qp& qp, const Work& work, Datagram& datagram) {
  constexpr uint32_t kOwnKey = 0x80000000;  // if this bit is set, the Q_Key of the sending QP is used
  const PortRecord* port = destination(qp, work.ah->attr);
  const uint32_t index = qpIndexOf(work.remote_qpn);
  if (port == nullptr || index < kFirstQpIndex || index >= kMaxQps) return;
  Segment& segment = *qp.fabric->segment;
  QpRecord& peer = segment.qps[index];
  const uint32_t qkey = (work.remote_qkey & kOwnKey) != 0 ? qp.record->qkey : work.remote_qkey;
  {
    const ResponderGuard guard(*qp.fabric, peer);
    if (listens(peer, work, static_cast<uint32_t>(port - segment.ports), qkey))
      arrive(qp, work, peer, datagram);
  }
  // Comes after the responder lock is released, because meetPeer() takes the table lock, which comes before
  // responder locks. This datagram is lost.
  if (datagram.unreachable != 0) meetPeer(*qp.fabric, datagram.unreachable);
}

}  // namespace

void sendDatagram(Qp& qp, const Work& work) {
  Datagram datagram;
  const ibv_wc_status status = compose(qp, work, &datagram);
  if (status != IBV_WC_SUCCESS) {
    completeSend(qp, work, status);
    const ResponderGuard guard(*qp.fabric, *qp.record);
    uint32_t sending = IBV_QPS_RTS;
    qp.record->state.compare_exchange_strong(sending, IBV_QPS_SQE, std::memory_order_seq_cst);
    return;
  }
  transmit(qp, work, datagram);
  if (work.signalled) completeSend(qp, work, IBV_WC_SUCCESS);
}

}  // namespace railwise::softdev
