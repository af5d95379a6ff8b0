// The two ends of a completion queue's ring: any process pushes under the CQ's shared lock, the owner polls.
// What a pusher stored before is visible to who polls the entry. Thread-safe.
#pragma once

#include "softdev/fabric/fabric.h"
#include "softdev/fabric/segment.h"

namespace railwise::softdev {

// Marks the CQ as overflowed; logs the first time. Always false.
bool overflowCq(const Fabric& fabric, CqRecord& cq);

// Wakes the owner when it asked to be told of a completion like this one. cq.lock is held, and the completion
// is published.
void announce(const Fabric& fabric, CqRecord& cq, bool solicited);
// Counts an event and wakes the owner whatever it asked for. cq.lock is held.
void announceAnyway(const Fabric& fabric, CqRecord& cq);

// Holds a CQ's lock. A last owner that died in it may have published a completion and not announced it, or
// disarmed the CQ and not rung: the owner is woken, for nothing at worst.
class CqGuard {
 public:
  [[gnu::always_inline]] CqGuard(const Fabric& fabric, CqRecord& cq) : lock_(cq.lock) {
    if (lock_.lock(fabric.self)) [[unlikely]]
      announceAnyway(fabric, cq);
  }
  ~CqGuard() { lock_.unlock(); }
  CqGuard(const CqGuard&) = delete;
  CqGuard& operator=(const CqGuard&) = delete;

 private:
  SharedLock& lock_;
};

// Notes when the completion happened.
void stamp(Cqe& cqe);

// Lets `fill` write the next entry in place (a copy of one built elsewhere costs a third of a completion),
// then publishes it. `fill` sets every field. False when the queue has overflowed: the completion is lost.
template <typename Fill>
[[gnu::always_inline]] inline bool pushCompletion(Fabric& fabric, CqRecord& cq, const Fill& fill) {
  CqGuard guard(fabric, cq);
  const uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  if (tail - cq.head.load(std::memory_order_acquire) >= cq.capacity ||
      cq.overflowed.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    return overflowCq(fabric, cq);
  }
  Cqe& cqe = cqeAt(*fabric.segment, cq, tail);
  fill(cqe);
  if (cq.stamped != 0) [[unlikely]]
    stamp(cqe);
  cq.tail.store(tail + 1, std::memory_order_release);
  if (cq.channel != 0) [[unlikely]]
    announce(fabric, cq, cqe.status != IBV_WC_SUCCESS || (cqe.wc_flags & kSolicited) != 0);
  return true;
}

}  // namespace railwise::softdev
