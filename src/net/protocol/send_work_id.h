// The content of wr_id of a sender's work request: slot, segment (group.h) and queue pair; whether the
// segment ends with this work request; and how many work requests of the queue pair its completion covers.
// Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace railwise::net {

inline constexpr uint64_t kLastOfSegment = uint64_t{1} << 24;
// iWARP: a posted receive for clear-to-send. The low 16 bits are the number of its buffer.
inline constexpr uint64_t kNotice = uint64_t{1} << 25;

inline constexpr uint64_t sendWorkId(uint32_t slot, uint32_t segment, std::size_t queue_pair) {
  return slot | uint64_t{segment} << 8 | uint64_t{queue_pair} << 16;
}
inline constexpr uint64_t noticeWorkId(uint32_t buffer, std::size_t queue_pair) {
  return buffer | uint64_t{queue_pair} << 16 | kNotice;
}
inline constexpr uint64_t endsWorkRequests(uint32_t count) { return uint64_t{count} << 32; }
// The time of this work request is measured.
inline constexpr uint64_t kSampled = uint64_t{1} << 27;

inline constexpr std::size_t workSlot(uint64_t id) { return id & 0xff; }
inline constexpr uint32_t workSegment(uint64_t id) { return (id >> 8) & 0xff; }
inline constexpr std::size_t workQueuePair(uint64_t id) { return (id >> 16) & 0xff; }
inline constexpr uint32_t workBuffer(uint64_t id) { return id & 0xffff; }
inline constexpr uint32_t workRequestsEnded(uint64_t id) { return (id >> 32) & 0xffff; }

}  // namespace railwise::net
