// The content of wr_id: the queue pair; whether it is a receive; and of a work request that is signalled, how
// many work requests of the queue pair its completion covers. The other bits are the user's: 0 to 15 (of a
// receive the number of its buffer), 24, 26 to 31, and 48 to 63. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace railwise::net {

inline constexpr uint64_t kReceiveWork = uint64_t{1} << 25;

inline constexpr uint64_t workRequestId(std::size_t queue_pair) { return uint64_t{queue_pair} << 16; }
inline constexpr uint64_t receiveWorkId(uint32_t buffer, std::size_t queue_pair) {
  return buffer | workRequestId(queue_pair) | kReceiveWork;
}
inline constexpr uint64_t endsWorkRequests(uint32_t count) { return uint64_t{count} << 32; }

inline constexpr std::size_t workQueuePair(uint64_t id) { return (id >> 16) & 0xff; }
inline constexpr uint32_t workBuffer(uint64_t id) { return id & 0xffff; }
inline constexpr uint32_t workRequestsEnded(uint64_t id) { return (id >> 32) & 0xffff; }

}  // namespace railwise::net
