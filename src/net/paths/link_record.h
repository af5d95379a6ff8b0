// What a link writes into the record of the process (record/layout.h) beside its counts: the peer, rail pairs
// and queue pairs of each epoch, what it waits for, and events. Nothing here is on the way of a good message.
//
// Threads: the link's.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "net/paths/link_state.h"
#include "record/writer.h"

namespace railwise::net {

// What a call waits for: the peer's next step, or an acknowledgement. After the peer has left, a wait for its
// next step ends soon; an acknowledgement may still be on the wire.
enum class Waiting : uint8_t { kPeer, kAcknowledgement };

class LinkRecord {
 public:
  explicit LinkRecord(LinkState& state) : state_(state) {}

  // The link comes up. `peer`: "host:pid". `pair_id`: the number that both ends have of the listener's
  // secret.
  void openPeer(std::string_view peer, uint64_t pair_id);
  // Why it is not up yet.
  void noteProblem(std::string_view problem);
  // An epoch begins: its rail pairs and queue pairs.
  void describeEpoch();
  // A path is lost (`queue_pair` null: no particular one), and the epoch is left.
  void lose(const std::string& what, const LaneQueuePair* queue_pair);
  void leaveEpoch(const std::string& why);
  // The next epoch is being connected.
  void reconnect();
  void fail(const std::string& what);
  void close();

  // What the link waits for, and since when its oldest unit is open.
  void noteLook(Clock::time_point now, Waiting waiting);
  Clock::time_point lookedAt() const { return looked_at_; }
  void noteEvent(record::EventKind kind, std::string_view text, const LaneQueuePair* queue_pair = nullptr,
                 std::array<uint64_t, 3> numbers = {});
  void countError(const LaneQueuePair* queue_pair, record::ErrorKind kind);

 private:
  uint16_t railOf(const LaneQueuePair& queue_pair) const;

  LinkState& state_;
  Clock::time_point looked_at_ = {};
  uint64_t lost_ns_ = 0;  // since when it has no path; 0: it has one
  uint64_t awaited_ = 0;  // the unit that it waited for at the last look
};

}  // namespace railwise::net
