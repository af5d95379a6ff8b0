// What a connection writes into the record of the process beside its counts (record/layout.h): the peer, rail
// pairs and queue pairs of each epoch, what it waits for, and events. Nothing here is on the way of a good
// message.
#include "net/paths/link_record.h"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <span>
#include <string>

#include "record/snapshot.h"

namespace railwise::net {
namespace {

uint64_t nsOf(Clock::time_point time) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

// The rails of a connection's epoch.
std::bitset<record::kMostRails> railsOf(const record::ConnectionRecord& connection) {
  std::bitset<record::kMostRails> rails;
  for (const record::PairRecord& pair :
       std::span(connection.pairs, std::min<std::size_t>(connection.pair_count, record::kPairs))) {
    if (pair.rail < rails.size()) rails.set(pair.rail);
  }
  return rails;
}

}  // namespace

uint16_t LinkRecord::railOf(const LaneQueuePair& queue_pair) const {
  return queue_pair.rail < state_.endpoint.rails.size() ? state_.endpoint.rails[queue_pair.rail].record_rail
                                                        : record::kNoRail;
}

void LinkRecord::countError(const LaneQueuePair* queue_pair, record::ErrorKind kind) {
  record::countError(queue_pair != nullptr ? railOf(*queue_pair) : state_.device.rails().front().record_rail,
                     kind);
}

void LinkRecord::noteEvent(record::EventKind kind, std::string_view text, const LaneQueuePair* queue_pair,
                           std::array<uint64_t, 3> numbers) {
  record::noteEvent(kind, text,
                    {.rail = queue_pair != nullptr ? railOf(*queue_pair) : record::kNoRail,
                     .connection = &state_.shown(),
                     .numbers = numbers});
}

void LinkRecord::openPeer(std::string_view peer, uint64_t pair_id) {
  record::ConnectionRecord& its = state_.shown();
  record::beginChange(its);
  record::setText(its.device, state_.device.name());
  its.device_rail = state_.device.rails().front().record_rail;
  record::setText(its.peer, peer);
  its.pair_id = pair_id;
  its.communicator = state_.options.communicator;
  record::endChange(its);
}

void LinkRecord::noteProblem(std::string_view problem) {
  record::setState(state_.shown(), state_.shown().state, problem);
}

void LinkRecord::lose(const std::string& what, const LaneQueuePair* queue_pair) {
  if (queue_pair != nullptr) record::countFailover(railOf(*queue_pair));
  ++state_.shown().counters.failovers;
  noteEvent(record::EventKind::kPathLost, what, queue_pair, {state_.epoch()});
}

void LinkRecord::leaveEpoch(const std::string& why) {
  record::setState(state_.shown(), record::ConnectionState::kLost, why);
  if (lost_ns_ == 0) lost_ns_ = nowNs();
}

void LinkRecord::reconnect() { record::setState(state_.shown(), record::ConnectionState::kReconnecting); }

void LinkRecord::fail(const std::string& what) {
  record::setState(state_.shown(), record::ConnectionState::kFailed, what);
  noteEvent(record::EventKind::kFailed, what);
}

void LinkRecord::close() {
  if (state_.inForkedChild()) return;
  state_.user.onLook();
  record::foldQueuePairs(state_.memory.page());
  record::foldFlushes(state_.memory.page());
  record::setState(state_.shown(), record::ConnectionState::kClosed);
  if (state_.there.rails > 0) noteEvent(record::EventKind::kClosed, state_.peer);
}

void LinkRecord::describeEpoch() {
  const uint64_t now = nowNs();
  record::ConnectionRecord& its = state_.shown();
  record::beginChange(its);
  const bool lost = !state_.endpoint.anyUsed();
  const uint64_t lost_for = lost_ns_ != 0 ? now - lost_ns_ : 0;
  if (!lost) lost_ns_ = 0;
  record::enterState(its, lost ? record::ConnectionState::kLost : record::ConnectionState::kRunning);
  its.epoch = state_.epoch();
  its.failover = state_.config.failover != 0 && state_.there.failover != 0 ? record::Failover::kOn
                                                                           : record::Failover::kOff;
  if (!lost) its.reason[0] = 0;
  const std::size_t split = state_.peer.rfind(" (");
  record::setText(its.peer, std::string_view(state_.peer).substr(0, split));
  if (split != std::string::npos)
    record::setText(its.peer_device,
                    std::string_view(state_.peer).substr(split + 2, state_.peer.size() - split - 3));
  its.lanes = static_cast<uint8_t>(state_.endpoint.lanes.size());
  its.queue_pairs = static_cast<uint8_t>(state_.endpoint.queue_pairs.size());
  its.first_message =
      state_.direction == Direction::kSend ? state_.numbers().posted : state_.numbers().arrived + 1;
  const std::bitset<record::kMostRails> before = railsOf(its);
  int pairs = 0;
  std::array<std::array<int, kMaxRails>, kMaxRails> place = {};  // plus 1
  for (LaneQueuePair& queue_pair : state_.endpoint.queue_pairs) {
    if (!queue_pair.rest->used) continue;
    int& at = place[queue_pair.rail][queue_pair.peer_rail];
    if (at == 0 && pairs < record::kPairs) {
      record::PairRecord& pair = its.pairs[pairs];
      const RailInfo& there = state_.there.rail[queue_pair.peer_rail];
      const QueuePairInfo& chosen =
          (state_.direction == Direction::kSend ? state_.there : state_.here).queue_pair[queue_pair.index];
      const bool sends = state_.direction == Direction::kSend;
      const uint8_t gid = sends ? chosen.peer_gid : chosen.gid;
      const uint8_t peer_gid = sends ? chosen.gid : chosen.peer_gid;
      const RailInfo& here = state_.here.rail[queue_pair.rail];
      pair.rail = railOf(queue_pair);
      pair.peer_port = there.port;
      pair.gid_index = here.gid_index[std::min<int>(gid, kRailGids - 1)];
      record::setText(pair.peer_device, fieldText(there.device));
      std::memcpy(pair.gid, here.gids[std::min<int>(gid, kRailGids - 1)], sizeof pair.gid);
      std::memcpy(pair.peer_gid, there.gids[std::min<int>(peer_gid, kRailGids - 1)], sizeof pair.peer_gid);
      at = ++pairs;
    }
    record::QueuePairRecord& counts = queue_pair.counts();
    counts.pair = static_cast<uint8_t>(std::max(at - 1, 0));
    counts.lane = queue_pair.lane;
    counts.peer_number = state_.there.queue_pair[queue_pair.index].number;
  }
  its.pair_count = static_cast<uint8_t>(pairs);
  const bool less = state_.degraded();
  if (!less && its.degraded != 0) its.counters.degraded_ns += now - its.degraded_since_ns;
  if (less && its.degraded == 0) its.degraded_since_ns = now;
  if (!less) its.degraded_since_ns = 0;
  its.degraded = less ? 1 : 0;
  record::endChange(its);
  if (state_.epoch() > 1 && !lost) {
    noteEvent(record::EventKind::kPathFound, state_.pathsText(), nullptr, {state_.epoch(), lost_for / 1000});
    const std::bitset<record::kMostRails> come = railsOf(its) & ~before;
    for (const Rail& rail : state_.device.rails()) {
      if (rail.record_rail < come.size() && come.test(rail.record_rail))
        record::countReturn(rail.record_rail);
    }
  }
}

void LinkRecord::noteLook(Clock::time_point now_time, Waiting waiting) {
  looked_at_ = now_time;
  const uint64_t now = nsOf(now_time);
  record::ConnectionRecord& its = state_.shown();
  state_.user.onLook();
  const auto [oldest, bytes, user_waits_for] = state_.user.underWay();
  if (oldest != its.oldest) {
    if (its.slow_noted != 0)
      noteEvent(record::EventKind::kSlowMessageEnded, "", nullptr,
                {its.oldest, (now - its.oldest_since_ns) / 1'000'000});
    its.slow_noted = 0;
    its.oldest = oldest;
    its.oldest_since_ns = now;
    its.oldest_bytes = bytes;
  }
  const bool sends = state_.direction == Direction::kSend;
  record::WaitsFor waits = record::WaitsFor::kNothing;
  if (!state_.running()) {
    const auto up = [](const Rail& first) {
      const Rail rail = first.now();
      return rail.hca->state().active(rail.port.number);
    };
    const bool any = std::any_of(state_.device.rails().begin(), state_.device.rails().end(), up) ||
                     std::any_of(state_.options.standbys.begin(), state_.options.standbys.end(), up);
    waits = any ? record::WaitsFor::kPeer : record::WaitsFor::kPath;
  } else if (user_waits_for != record::WaitsFor::kNothing) {
    waits = user_waits_for;
  } else if (oldest != 0) {
    waits = sends ? record::WaitsFor::kCompletion : record::WaitsFor::kData;
  } else if (sends && waiting == Waiting::kPeer && its.kind == record::ConnectionKind::kMessages) {
    waits = record::WaitsFor::kClearToSend;
  }
  // A sender that waits for clear-to-sends one after the other does not wait for the first one.
  const uint64_t awaited = waits == record::WaitsFor::kClearToSend ? state_.numbers().next : oldest;
  if (waits != its.waits_for || awaited != awaited_) {
    its.waits_for = waits;
    its.waits_since_ns = now;
    awaited_ = awaited;
  }
  const auto limit = static_cast<uint64_t>(state_.config.slow_message_ms) * 1'000'000;
  if (oldest != 0 && its.slow_noted == 0 && limit != 0 && now - its.oldest_since_ns >= limit) {
    its.slow_noted = 1;
    ++its.counters.slow_messages;
    const LaneQueuePair* const first = state_.endpoint.onRail(0);
    noteEvent(record::EventKind::kSlowMessage, record::waitsForText(waits), first,
              {oldest, (now - its.oldest_since_ns) / 1'000'000});
  }
  double all = 0;
  for (const LaneLoad& load : state_.endpoint.loads) all += load.rate();
  for (LaneQueuePair& queue_pair : state_.endpoint.queue_pairs) {
    if (!queue_pair.rest->used || state_.endpoint.loads.size() <= queue_pair.lane ||
        state_.endpoint.loads.size() < 2)
      continue;
    const LaneLoad& load = state_.endpoint.loads[queue_pair.lane];
    queue_pair.counts().measured_mbps = load.measuredMbps();
    queue_pair.counts().share_permille = static_cast<uint16_t>(load.rate() / all * 1000);
  }
  its.looked_ns = now;
}

}  // namespace railwise::net
