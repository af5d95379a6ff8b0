// What a sender writes into the user's bits of wr_id (paths/work_id.h): slot and segment (group.h), whether
// the segment ends with this work request, and whether its time is measured. Pure functions, any thread.
#pragma once

#include "net/paths/work_id.h"

namespace railwise::net {

inline constexpr uint64_t kLastOfSegment = uint64_t{1} << 24;
inline constexpr uint64_t kSampled = uint64_t{1} << 27;

inline constexpr uint64_t sendWorkId(uint32_t slot, uint32_t segment, std::size_t queue_pair) {
  return slot | uint64_t{segment} << 8 | workRequestId(queue_pair);
}

inline constexpr std::size_t workSlot(uint64_t id) { return id & 0xff; }
inline constexpr uint32_t workSegment(uint64_t id) { return (id >> 8) & 0xff; }

}  // namespace railwise::net
