// What a sender writes into the user's bits of wr_id (paths/work_id.h): slot and segment (group.h), whether
// the segment ends with this work request, whether its time is measured; of a part of a striped message
// (stripe_plan.h) its size. One thread at a time per queue pair.
#pragma once

#include "net/paths/lane.h"

namespace railwise::net {

inline constexpr uint64_t kLastOfSegment = uint64_t{1} << 24;
inline constexpr uint64_t kSampled = uint64_t{1} << 27;

// A part of a striped message, which has no Segment.
inline constexpr uint64_t kStripePart = uint64_t{1} << 26;

inline constexpr uint64_t sendWorkId(uint32_t slot, uint32_t segment, std::size_t queue_pair) {
  return slot | uint64_t{segment} << 8 | workRequestId(queue_pair);
}

// wr_id has the size of a part in units of kCutAlignment, rounded up, and so the lanes count it.
inline constexpr uint32_t stripePartBytes(uint32_t bytes) {
  return (bytes + kCutAlignment - 1) & ~(kCutAlignment - 1);
}
inline constexpr uint64_t stripePartId(uint32_t slot, uint32_t bytes) {
  return slot | kStripePart | uint64_t{stripePartBytes(bytes) / kCutAlignment} << 48;
}
inline constexpr uint64_t stripePartOf(uint64_t id) { return (id >> 48) * kCutAlignment; }

inline constexpr std::size_t workSlot(uint64_t id) { return id & 0xff; }
inline constexpr uint32_t workSegment(uint64_t id) { return (id >> 8) & 0xff; }

// Makes `work`, the work request that was counted last, signalled. Its completion covers all work requests of
// the queue pair before.
inline void makeSignalled(ibv_send_wr& work, LaneQueuePair& queue_pair) {
  work.send_flags |= IBV_SEND_SIGNALED;
  work.wr_id |= endsWorkRequests(queue_pair.cover());
}

}  // namespace railwise::net
