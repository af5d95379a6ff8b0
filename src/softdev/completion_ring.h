// The two ends of a completion queue's ring: any process pushes under the CQ's shared lock, the owner polls.
// What a pusher stored before is visible to who polls the entry. Thread-safe.
#pragma once

#include "softdev/fabric.h"
#include "softdev/segment.h"

namespace railwise::softdev {

// Marks the CQ as overflowed; logs the first time. Always false.
bool overflowCq(const Segment& segment, CqRecord& cq);

// Lets `fill` write the next entry in place (a copy of one built elsewhere costs a third of a completion),
// then publishes it. `fill` sets every field. False when the queue has overflowed: the completion is lost.
template <typename Fill>
[[gnu::always_inline]] inline bool pushCompletion(Fabric& fabric, CqRecord& cq, const Fill& fill) {
  SharedLockGuard guard(cq.lock, fabric.self);
  const uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  if (tail - cq.head.load(std::memory_order_acquire) >= cq.capacity ||
      cq.overflowed.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    return overflowCq(*fabric.segment, cq);
  }
  fill(cqeAt(*fabric.segment, cq, tail));
  cq.tail.store(tail + 1, std::memory_order_release);
  return true;
}

}  // namespace railwise::softdev
