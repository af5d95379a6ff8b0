// What a one-sided connection has done so far, from its page. Pure function, any thread.
#pragma once

#include <cstdint>

#include "record/layout.h"

namespace railwise::record {

inline OneSidedTotals oneSidedTotals(const ConnectionPage& page) {
  const ConnectionRecord& connection = page.connection;
  const OneSidedRecord& its = connection.one_sided;
  OneSidedTotals totals = {};
  if (connection.kind != ConnectionKind::kOneSided) return totals;
  if (connection.side != Side::kSender) {
    totals.signals_applied = connection.numbers.arrived;
    return totals;
  }
  const uint64_t given = connection.numbers.next > 0 ? connection.numbers.next - 1 : 0;
  totals.puts = given > its.gets ? given - its.gets : 0;
  totals.put_bytes = its.put_bytes;
  totals.gets = its.gets;
  totals.get_bytes = its.get_bytes;
  totals.signals_sent = its.signals;
  for (const QueuePairRecord& queue_pair : page.queue_pairs) {
    if (queue_pair.used == 0) continue;
    totals.put_bytes += queue_pair.bytes;
    totals.get_bytes += queue_pair.got;
  }
  return totals;
}

}  // namespace railwise::record
