#include "softdev/queues/completion_ring.h"

#include <algorithm>

#include "base/log.h"
#include "softdev/fabric/doorbell.h"
#include "softdev/fabric/events.h"
#include "softdev/fabric/monotonic.h"

namespace railwise::softdev {

bool overflowCq(const Fabric& fabric, CqRecord& cq) {
  if (cq.ignore_overrun == 0 && cq.overflowed.exchange(1, std::memory_order_seq_cst) == 0) {
    const auto index = static_cast<uint32_t>(&cq - fabric.segment->cqs);
    RAILWISE_WARN(
        "software device: completion queue %u overflowed (%u entries, none polled in time): create it larger",
        index, cq.capacity);
    raiseEvent(fabric, cq.context, IBV_EVENT_CQ_ERR, index);
  }
  return false;
}

void stamp(Cqe& cqe) { cqe.stamp_ns = std::max(monotonicNs(), cqe.ready_ns); }

void announce(const Fabric& fabric, CqRecord& cq, bool solicited) {
  // Either this process sees that the owner has armed the CQ, or the owner, which polls after arming it, sees
  // the completion.
  fullFence();
  const uint32_t armed = cq.armed.load(std::memory_order_relaxed);
  if (armed == kNotArmed || (armed == kArmedSolicited && !solicited)) return;
  if (cq.armed.exchange(kNotArmed, std::memory_order_seq_cst) == kNotArmed) return;
  cq.events.fetch_add(1, std::memory_order_acq_rel);
  ring(fabric, cq.owner.load(std::memory_order_relaxed), cq.channel);
}

void announceAnyway(const Fabric& fabric, CqRecord& cq) {
  if (cq.channel == 0) return;
  cq.events.fetch_add(1, std::memory_order_acq_rel);
  ring(fabric, cq.owner.load(std::memory_order_relaxed), cq.channel);
}

}  // namespace railwise::softdev
