// What the two ends of a one-sided connection write into the record of the process (record/layout.h) beside
// their counts, and what they wait for. Nothing here is on the way of an operation: a link looks about every
// 20 ms.
#include <algorithm>

#include "base/clock.h"
#include "net/rma/put_target.h"
#include "net/rma/put_writer.h"

namespace railwise::net {

using record::WaitsFor;

// ---- the end that puts

// Another end of this connection may have been made before, and not have come up: its operations are kept.
void PutWriter::openRecord() {
  shown().kind = record::ConnectionKind::kOneSided;
  shown().one_sided.peer_rank_plus_one = rank_ + 1;
  for (const RmaStream& stream : streams_) {
    for (const RmaRequest* request = stream.first(); request != nullptr; request = request->next)
      noteAdded(request->kind);
  }
}

void PutWriter::onLook() {
  record::OneSidedRecord& its = shown().one_sided;
  its.signals = its.signals_done = its.gets_open = 0;
  for (const RmaStream& stream : streams_) {
    its.signals += stream.lastSignal();
    its.signals_done += stream.doneSignal();
    for (const RmaRequest* request = stream.first(); request != nullptr; request = request->next)
      its.gets_open += request->kind == RmaRequest::Kind::kGet ? 1 : 0;
  }
}

bool PutWriter::isTold(uint32_t window) const {
  const Region* const region = regions_.find(window);
  return region != nullptr && (region->gone || region->epoch == static_cast<uint32_t>(link_.epoch()));
}

WaitsFor PutWriter::waitsFor(const RmaRequest& request) const {
  if (request.state != RmaRequest::State::kWaiting) return WaitsFor::kCompletion;
  const bool signals = request.number != 0;
  if ((request.bytes > 0 && !isTold(request.remote_window)) || (signals && !isTold(request.signal_window)))
    return WaitsFor::kWindow;
  const auto no_credit = [&](const LaneQueuePair& each) { return each.rest->used && !hasCredit(each.index); };
  return signals && std::ranges::any_of(link_.endpoint.queue_pairs, no_credit) ? WaitsFor::kCredit
                                                                               : WaitsFor::kCompletion;
}

// What the other end must do counts before a completion, which comes by itself.
UnderWay PutWriter::underWay() const {
  UnderWay oldest;
  for (const RmaStream& stream : streams_) {
    if (stream.empty()) continue;
    const WaitsFor its = waitsFor(*stream.first());
    if (oldest.oldest != 0 && its == WaitsFor::kCompletion) continue;
    oldest = {numbers().complete + 1, stream.first()->bytes, its};
    if (its != WaitsFor::kCompletion) break;
  }
  return oldest;
}

// ---- the end that is put to

void PutTarget::onLook() {
  record::OneSidedRecord& its = shown().one_sided;
  its.signals = 0;
  for (const SignalOrder& stream : streams_) its.signals += stream.latest();
  if (its.signals_seen != arrivedUpTo()) its.last_signal_ns = nowNs();
  its.signals_seen = arrivedUpTo();
}

UnderWay PutTarget::underWay() const {
  const auto incomplete = [](const SignalOrder& each) { return each.latest() > each.applied(); };
  if (std::ranges::any_of(streams_, incomplete))
    return {arrivedUpTo() + 1, sizeof(uint64_t), WaitsFor::kSignalParts};
  if (last_write_ != 0 && owner_.slots.owes(last_write_))
    return {arrivedUpTo(), sizeof(uint64_t), WaitsFor::kOwnNic};
  return {};
}

}  // namespace railwise::net
