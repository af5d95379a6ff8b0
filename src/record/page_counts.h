// What the page of a connection has counted, for the writer, who moves it to the totals of rails, and for
// readers, who add it to them. Pure functions, any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "record/layout.h"

namespace railwise::record {

// A receiver counts the bytes of messages that came in segments for the connection as a whole, because it
// does not know how many of them came over each queue pair. What counts for each queue pair of such bytes: in
// proportion to its segments. The shares add up to all of them, unless no queue pair has a segment.
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

inline uint64_t controlBytes(const QueuePairRecord& queue_pair) {
  const auto sum = static_cast<__int128>(queue_pair.control_each) * queue_pair.posted +
                   static_cast<__int128>(queue_pair.control_extra);
  return static_cast<uint64_t>(std::clamp<__int128>(sum, 0, UINT64_MAX));
}

// The first receive that is not counted yet for the queue pairs of this epoch.
inline uint64_t nextMessage(const ConnectionRecord& connection) {
  return connection.side == Side::kSender ? connection.numbers.posted : connection.numbers.arrived + 1;
}

// Calls visit(queue pair, what it counts for its rail) for each living queue pair. Messages that are not cut
// count for the first one.
template <typename Visit>
void visitQueuePairs(const ConnectionPage& page, Visit visit) {
  const ConnectionRecord& connection = page.connection;
  const bool sends = connection.side == Side::kSender;
  const bool cut = connection.lanes != 1;
  uint64_t whole = growth(connection.first_message, nextMessage(connection));
  const std::array<uint64_t, kQueuePairs> spread = spreadShares(page);
  for (std::size_t i = 0; i < spread.size(); ++i) {
    const QueuePairRecord& pair = page.queue_pairs[i];
    if (pair.used == 0) continue;
    Totals totals = {};
    (sends ? totals.bytes_sent : totals.bytes_received) = pair.bytes + (sends ? 0 : spread[i]);
    (sends ? totals.messages_sent : totals.messages_received) = cut ? pair.segments : std::exchange(whole, 0);
    totals.work_requests = pair.posted;
    totals.control_bytes = controlBytes(pair);
    totals.bytes_received += pair.got;
    totals.bytes_got = pair.got;
    visit(pair, totals);
  }
}

// Calls visit(rail, what counts for it) for each completion queue.
template <typename Visit>
void visitCompletions(const ConnectionRecord& connection, Visit visit) {
  for (std::size_t i = 0; i < kPairs; ++i)
    visit(connection.queue_rail[i], Totals{.completions = i == 0 ? connection.numbers.completions
                                                                 : connection.more_completions[i - 1]});
}

// The same for flushes. Each read is of 1 byte.
template <typename Visit>
void visitFlushes(const ConnectionRecord& connection, Visit visit) {
  for (const FlushCounts& flushes : connection.flushes)
    visit(flushes.rail, Totals{.work_requests = flushes.reads,
                               .control_bytes = flushes.reads,
                               .completions = flushes.completions});
}

// What a one-sided connection has done so far.
inline OneSidedTotals oneSidedTotals(const ConnectionPage& page) {
  const ConnectionRecord& connection = page.connection;
  const OneSidedRecord& its = connection.one_sided;
  if (connection.kind != ConnectionKind::kOneSided) return {};
  if (connection.side != Side::kSender) return {.signals_applied = connection.numbers.arrived};
  OneSidedTotals totals = {.puts = growth(its.gets, growth(uint64_t{1}, connection.numbers.next)),
                           .put_bytes = its.put_bytes,
                           .gets = its.gets,
                           .get_bytes = its.get_bytes,
                           .signals_sent = its.signals};
  for (const QueuePairRecord& queue_pair : page.queue_pairs) {
    if (queue_pair.used == 0) continue;
    totals.put_bytes += queue_pair.bytes;
    totals.get_bytes += queue_pair.got;
  }
  return totals;
}

// Adds what a connection has counted for itself: a ConnectionRecord, or a Connection of a snapshot.
template <typename AnyConnection>
void addConnection(ClosedConnections& sum, const AnyConnection& connection,
                   const ConnectionCounters& counters, const OneSidedTotals& one_sided) {
  add(sum.counters, counters);
  add(sum.one_sided, one_sided);
  for (std::size_t b = 0; b < kBuckets; ++b) {
    sum.latency[b] += connection.latency[b];
    sum.size[b] += connection.size[b];
  }
  for (std::size_t call = 0; call < kCalls; ++call) add(sum.calls[call], connection.calls[call]);
  for (std::size_t i = 0; i < std::size(sum.group_sizes); ++i)
    sum.group_sizes[i] += connection.group_sizes[i];
}

}  // namespace railwise::record
