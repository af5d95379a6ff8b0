#include "softdev/engine/injector.h"

#include <algorithm>

#include "softdev/engine/datagram.h"
#include "softdev/engine/rnr_timer.h"
#include "softdev/faults/actions.h"
#include "softdev/queues/receive_claim.h"
#include "softdev/queues/responder.h"

namespace railwise::softdev {
namespace {

uint32_t operationOf(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
      return kFaultWrite;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return kFaultWriteImm;
    case IBV_WR_RDMA_READ:
      return kFaultRead;
    case IBV_WR_SEND_WITH_IMM:
      return kFaultSendImm;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return kFaultAtomic;
    default:
      return kFaultSend;
  }
}

bool takesReceive(uint32_t operation) {
  return (operation & (kFaultWriteImm | kFaultSend | kFaultSendImm)) != 0;
}

// The connected queue pair; null if there is none (any more).
QpRecord* peerOf(const Qp& qp) {
  QpRecord* peer = qp.peer.record;
  const bool there = peer != nullptr && peer->qp_num.load(std::memory_order_acquire) == qp.attr.dest_qp_num;
  return there ? peer : nullptr;
}

void holdBack(Injection* injection, Clock::duration time) {
  injection->waits = true;
  injection->until = std::max(injection->until, Clock::now() + time);
}

void failAfter(Injection* injection, Clock::duration time, ibv_wc_status status) {
  holdBack(injection, time);
  injection->effect = Injection::Effect::kFail;
  injection->status = status;
}

// Simulates `times` missing acknowledgements (0: all are missing). Each costs the acknowledge timeout.
void dropPackets(const Qp& qp, uint64_t times, Injection* injection) {
  if (qp.qp_base.qp_type == IBV_QPT_UD) {
    injection->effect = Injection::Effect::kLost;
    return;
  }
  const Clock::duration timeout = std::chrono::nanoseconds(4096) * (int64_t{1} << (qp.attr.timeout & 31));
  if (qp.attr.timeout == 0) {
    injection->waits = injection->forever = true;  // timeout 0: the sender waits for ever
  } else if (times == 0 || times > qp.attr.retry_cnt) {
    failAfter(injection, timeout * (qp.attr.retry_cnt + 1), IBV_WC_RETRY_EXC_ERR);
  } else {
    holdBack(injection, timeout * static_cast<int64_t>(times));
  }
}

// Simulates `times` answers "receiver not ready" (0: every answer). Each costs the receiver's RNR timer.
void refuseReady(const Qp& qp, uint64_t times, Injection* injection) {
  if (qp.qp_base.qp_type == IBV_QPT_UD) return dropPackets(qp, times, injection);
  const QpRecord* peer = peerOf(qp);
  const uint32_t code = peer != nullptr ? peer->min_rnr_timer.load(std::memory_order_relaxed) : 0;
  const Clock::duration timer = rnrTimer(code);
  const bool endless = qp.attr.rnr_retry == kForeverRnr;
  if (times == 0 && endless) {
    injection->waits = injection->forever = true;
  } else if (!endless && (times == 0 || times > qp.attr.rnr_retry)) {
    failAfter(injection, timer * qp.attr.rnr_retry, IBV_WC_RNR_RETRY_EXC_ERR);
  } else {
    holdBack(injection, timer * static_cast<int64_t>(times));
  }
}

bool ofPeer(ibv_wc_status status) {
  return status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR ||
         status == IBV_WC_REM_INV_RD_REQ_ERR || status == IBV_WC_REM_ABORT_ERR;
}

// Applies a rule for the sender's opcode.
void injectSend(const Qp& qp, const FaultRule& rule, Injection* injection) {
  if (injection->effect != Injection::Effect::kNone || injection->forever)
    return;  // an earlier rule has decided
  switch (rule.action) {
    case FaultAction::kStatus:
      injection->status = static_cast<ibv_wc_status>(rule.code);
      injection->effect = ofPeer(injection->status) ? Injection::Effect::kRemote : Injection::Effect::kFail;
      break;
    case FaultAction::kDrop:
      dropPackets(qp, rule.amount, injection);
      break;
    case FaultAction::kRnr:
      refuseReady(qp, rule.amount, injection);
      break;
    case FaultAction::kDelay:
      holdBack(injection, std::chrono::nanoseconds(rule.amount));
      break;
    case FaultAction::kStuck:
      injection->waits = injection->forever = true;
      break;
    case FaultAction::kQpFatal:
      injection->effect = Injection::Effect::kFatal;
      break;
    case FaultAction::kPlace:
      injection->adversarial = true;
      break;
    default:
      break;
  }
}

// Applies a rule for the peer that receives from `qp`.
void injectReceive(const Qp& qp, const Target& at, const FaultRule& rule, Injection* injection) {
  if (rule.action == FaultAction::kStatus && injection->effect == Injection::Effect::kNone) {
    injection->effect = Injection::Effect::kReceive;
    injection->status = static_cast<ibv_wc_status>(rule.code);
  } else if (rule.action == FaultAction::kQpFatal) {
    failQp(at.fabric, *at.qp, qp.attr.dest_qp_num);
  }
}

bool hasReceive(Fabric& fabric, QpRecord& qp) {
  return receivesPosted(qp) > 0 || (qp.srq != 0 && claimReceive(fabric, qp, 0));
}

// Runs the send as on a device with adversarial placement.
Outcome runAdversarial(Qp& qp, Chain& chain, const Work& work) {
  const bool always = (qp.special & kSpecialPlacement) != 0;
  qp.special |= kSpecialPlacement;
  const Outcome outcome = chain.run(work);
  if (!always) qp.special &= ~uint32_t{kSpecialPlacement};
  return outcome;
}

FaultSite siteOf(const Qp& qp, const Work& work) {
  const Segment& segment = *qp.fabric->segment;
  FaultSite site;
  describePlace(segment, *qp.record, &site);
  if (const QpRecord* peer = peerOf(qp); peer != nullptr) {
    site.peer = segment.ports[peer->port].host;
    site.peer_device = segment.ports[peer->port].device;
  }
  site.operation = operationOf(work.opcode);
  site.wr_id = work.wr_id;
  site.bytes = work.length;
  site.stream = qp.qp_base.qp_num;
  site.ordinal = work.retires;
  return site;
}

}  // namespace

void judge(Qp& qp, const Work& work, Chain* chain, Injection* injection) {
  injection->judged = true;
  Fabric& fabric = *qp.fabric;
  const FaultSite site = siteOf(qp, work);
  QpRecord* peer = peerOf(qp);
  const std::vector<FaultHit> hits_here = strike(fabric, site);
  std::vector<FaultHit> hits_there;
  if (peer != nullptr && takesReceive(site.operation)) {
    FaultSite there = site;
    describePlace(*fabric.segment, *peer, &there);
    there.operation = kFaultReceive;
    there.peer = site.host;
    there.peer_device = site.device;
    there.stream = there.qp;
    hits_there = strike(fabric, there);
  }
  if (hits_here.empty() && hits_there.empty()) return;
  if (chain != nullptr) chain->close();
  const Target here{fabric, qp.record->context, qp.record->port, qp.record, peer};
  for (const FaultHit& hit : hits_here) {
    if (!act(here, hit.rule)) injectSend(qp, hit.rule, injection);
  }
  if (hits_there.empty()) return;
  const Target far{fabric, peer->context, peer->port, peer, qp.record};
  for (const FaultHit& hit : hits_there) {
    if (!act(far, hit.rule)) injectReceive(qp, far, hit.rule, injection);
  }
}

bool heldBack(const Injection& injection) {
  return injection.waits && (injection.forever || Clock::now() < injection.until);
}

Outcome execute(Qp& qp, Chain& chain, const Work& work, const Injection& injection) {
  const bool datagram = qp.qp_base.qp_type == IBV_QPT_UD;
  switch (injection.effect) {
    case Injection::Effect::kNone:
      if (datagram) {
        sendDatagram(qp, work);
        return {};
      }
      return injection.adversarial ? runAdversarial(qp, chain, work) : chain.run(work);
    case Injection::Effect::kLost:
      if (work.signalled) completeSend(qp, work, IBV_WC_SUCCESS);
      return {};
    case Injection::Effect::kRemote:
      if (datagram) break;  // nobody answers a datagram
      return chain.refuseSend(injection.status, takesReceive(operationOf(work.opcode)));
    case Injection::Effect::kReceive:
      return chain.failReceive(injection.status);
    case Injection::Effect::kFatal:
      chain.close();
      failQp(*qp.fabric, *qp.record, qp.qp_base.qp_num);
      return {Verdict::kFailed, IBV_WC_WR_FLUSH_ERR};
    case Injection::Effect::kFail:
      break;
  }
  return {Verdict::kFailed, injection.status};
}

void submitFaulty(Qp& qp, Chain& chain, const Work& work) {
  Injection injection;
  judge(qp, work, &chain, &injection);
  if (qp.currentState() == IBV_QPS_ERR) {
    chain.close();
    return completeSend(qp, work, IBV_WC_WR_FLUSH_ERR);
  }
  if (heldBack(injection)) {
    chain.close();
    park(qp, work, Verdict::kDone);
  } else if (const Outcome outcome = execute(qp, chain, work, injection); outcome.verdict != Verdict::kDone) {
    settle(qp, chain, work, outcome);
  }
  if (!qp.parked.empty()) qp.parked.back().injection = injection;  // it is the only parked send
}

Outcome Chain::lockAlone() {
  if (!locked_) {
    if (const Outcome outcome = lockPeer(); outcome.verdict != Verdict::kDone) return outcome;
  }
  return qp_.peer.local || flush() ? Outcome{} : Outcome{Verdict::kBroken};
}

Outcome Chain::refuseSend(ibv_wc_status status, bool takes_receive) {
  if (const Outcome outcome = lockAlone(); outcome.verdict != Verdict::kDone) return outcome;
  const bool rejects = status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR;
  if (rejects && takes_receive && hasReceive(*qp_.fabric, *qp_.peer.record))
    return rejectSend(status == IBV_WC_REM_INV_REQ_ERR ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR);
  return refuse(status);
}

Outcome Chain::failReceive(ibv_wc_status status) {
  if (const Outcome outcome = lockAlone(); outcome.verdict != Verdict::kDone) return outcome;
  if (!hasReceive(*qp_.fabric, *qp_.peer.record)) return {Verdict::kNoReceive};
  return rejectSend(status);
}

}  // namespace railwise::softdev
