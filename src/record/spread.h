// A receiver counts the bytes of messages that came in segments for the connection as a whole, because it
// does not know how many of them came over each queue pair. Pure function, any thread.
#pragma once

#include <array>
#include <cstdint>

#include "record/layout.h"

namespace railwise::record {

// What counts for each queue pair of such bytes: in proportion to its segments. The shares add up to all of
// them, unless no queue pair has a segment.
inline std::array<uint64_t, kQueuePairs> spreadShares(const ConnectionPage& page) {
  std::array<uint64_t, kQueuePairs> shares = {};
  const uint64_t bytes = page.connection.numbers.spread_bytes;
  uint64_t segments = 0;
  for (const QueuePairRecord& pair : page.queue_pairs) segments += pair.used != 0 ? pair.segments : 0;
  uint64_t given = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; segments != 0 && i < shares.size(); ++i) {
    const QueuePairRecord& pair = page.queue_pairs[i];
    if (pair.used == 0 || pair.segments == 0) continue;
    shares[i] = bytes / segments * pair.segments;
    given += shares[i];
    last = i;
  }
  if (segments != 0) shares[last] += bytes - given;
  return shares;
}

}  // namespace railwise::record
