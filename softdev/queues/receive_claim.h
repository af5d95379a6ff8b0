// Receives of a shared receive queue, for a process that sends to a queue pair with such a queue.
#pragma once

#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// A queue pair with an SRQ has a small receive ring of its own. A receive is claimed when a send needs it: it
// moves from the SRQ to that ring, and from then on it is like any other receive of the QP. If the sender
// dies, the next sender finds the receive there.
constexpr uint32_t kClaimSlots = 64;

// Holds an SRQ's lock. If the last owner of the lock died during a claim, that claim is finished first.
class SrqGuard {
 public:
  SrqGuard(const Fabric& fabric, SrqRecord& srq);
  ~SrqGuard() { srq_.lock.unlock(); }
  SrqGuard(const SrqGuard&) = delete;
  SrqGuard& operator=(const SrqGuard&) = delete;

 private:
  SrqRecord& srq_;
};

// Claims a receive, unless the QP (which has an SRQ) already has more than `enough`. False: the SRQ is empty.
// The caller holds the responder lock.
bool claimReceive(const Fabric& fabric, QpRecord& qp, uint64_t enough);

// Size of a slot of a receive ring, for receives with up to `max_sge` SGEs.
inline uint32_t strideOf(uint32_t max_sge) {
  return static_cast<uint32_t>(sizeof(ReceiveEntry) + max_sge * sizeof(Sge));
}

// Notifies the owner once when fewer receives are left than its limit. The caller holds srq.lock.
void checkLimit(const Fabric& fabric, SrqRecord& srq);

}  // namespace railwise::softdev
