// What a work request of the sender says of itself in its completion (wr_id): slot, part and queue pair,
// whether the part ends with it, how many work requests of the queue pair end with it; of a message that has
// no parts, its number.
#pragma once

#include <cstddef>
#include <cstdint>

namespace railwise::net {

inline constexpr uint64_t kLastOfPart = uint64_t{1} << 24;
// iWARP: a receive for clear-to-send, whose buffer has the number in the low 16 bits.
inline constexpr uint64_t kNotice = uint64_t{1} << 25;

inline constexpr uint64_t sendWorkId(uint32_t slot, uint32_t part, std::size_t queue_pair) {
  return slot | uint64_t{part} << 8 | uint64_t{queue_pair} << 16;
}
inline constexpr uint64_t noticeWorkId(uint32_t buffer, std::size_t queue_pair) {
  return buffer | uint64_t{queue_pair} << 16 | kNotice;
}
inline constexpr uint64_t endsWorkRequests(uint32_t count) { return uint64_t{count} << 32; }
// Everything up to a message of this number ends with it, where one queue pair carries all. Low bits, more
// than enough to tell those that are under way apart; the highest bit of all is kProbeWork's.
inline constexpr uint64_t kWorkNumberMask = 0x7fff;
inline constexpr uint64_t kNumbered = uint64_t{1} << 26;
inline constexpr uint64_t withNumber(uint64_t number) { return (number & kWorkNumberMask) << 48 | kNumbered; }

inline constexpr std::size_t workSlot(uint64_t id) { return id & 0xff; }
inline constexpr uint32_t workPart(uint64_t id) { return (id >> 8) & 0xff; }
inline constexpr std::size_t workQueuePair(uint64_t id) { return (id >> 16) & 0xff; }
inline constexpr uint32_t workBuffer(uint64_t id) { return id & 0xffff; }
inline constexpr uint32_t workRequestsEnded(uint64_t id) { return (id >> 32) & 0xffff; }
// The latest number before `next` that has these bits.
inline constexpr uint64_t workNumber(uint64_t id, uint64_t next) {
  return next - ((next - (id >> 48)) & kWorkNumberMask);
}

}  // namespace railwise::net
