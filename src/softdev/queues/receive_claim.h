// Receives of a shared receive queue, for whoever sends to a queue pair that has one.
#pragma once

#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// A queue pair with an SRQ has a small receive ring of its own. A receive is claimed when it is needed: it
// moves from the SRQ to that ring, and from then on is the QP's like any other; should the sender die, the
// next one finds it there.
constexpr uint32_t kClaimSlots = 64;

// Holds an SRQ's lock; a claim that its last owner died in is finished first.
class SrqGuard {
 public:
  SrqGuard(const Fabric& fabric, SrqRecord& srq);
  ~SrqGuard() { srq_.lock.unlock(); }
  SrqGuard(const SrqGuard&) = delete;
  SrqGuard& operator=(const SrqGuard&) = delete;

 private:
  SrqRecord& srq_;
};

// Claims a receive unless the QP (which has an SRQ) already has more than `enough`; false when the SRQ is
// empty. The responder lock is held.
bool claimReceive(const Fabric& fabric, QpRecord& qp, uint64_t enough);

// Bytes of a slot of a receive ring, for receives with up to `max_sge` SGEs.
inline uint32_t strideOf(uint32_t max_sge) {
  return static_cast<uint32_t>(sizeof(ReceiveEntry) + max_sge * sizeof(Sge));
}

// Tells the owner when fewer receives are left than it wants, once. srq.lock is held.
void checkLimit(const Fabric& fabric, SrqRecord& srq);

}  // namespace railwise::softdev
