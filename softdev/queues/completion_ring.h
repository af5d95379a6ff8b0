// A completion queue's ring. Any process pushes, under the CQ's shared lock; the owner polls. All that a
// pusher stored before is visible to the thread that polls the entry. Thread-safe.
#pragma once

#include "softdev/fabric/fabric.h"
#include "softdev/fabric/segment.h"

namespace railwise::softdev {

// Marks the CQ as overflowed. Logs that the first time. Always returns false.
bool overflowCq(const Fabric& fabric, CqRecord& cq);

// Wakes the owner, if the owner requested an event for such a completion. The caller holds cq.lock and has
// published the completion.
void announce(const Fabric& fabric, CqRecord& cq, bool solicited);
// Counts an event and wakes the owner in any case. The caller holds cq.lock.
void announceAnyway(const Fabric& fabric, CqRecord& cq);

// Holds a CQ's lock. If the last owner of the lock died with it, that process may have published a completion
// without announcing it, or disarmed the CQ without ringing. Then the CQ's owner is woken, at worst for
// nothing.
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

// Makes polling skip an entry. Who reads kVoid by kindOf() then also sees rq_polled as the poll has left it:
// recoverResponder() reads entries while they are polled.
inline void makeVoid(Cqe& cqe) {
  std::atomic_ref<CqeKind>(cqe.kind).store(CqeKind::kVoid, std::memory_order_release);
}
inline CqeKind kindOf(Cqe& cqe) { return std::atomic_ref<CqeKind>(cqe.kind).load(std::memory_order_acquire); }

// Writes the time of the completion into the entry.
void stamp(Cqe& cqe);

// `fill` writes the next entry in place, because copying an entry built elsewhere costs a third of a
// completion. Then pushCompletion() publishes the entry. `fill` must set every field. False: the queue has
// overflowed and the completion is lost.
template <typename Fill>
[[gnu::always_inline]] inline bool pushCompletion(Fabric& fabric, CqRecord& cq, const Fill& fill) {
  CqGuard guard(fabric, cq);
  const uint64_t tail = cq.tail.load(std::memory_order_relaxed);  // only holders of the lock store it
  // Acquire: the owner has read the entry that is overwritten below.
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
