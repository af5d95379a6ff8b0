// A lane: the queue pairs of one rail pair, that is of one rail of this end and one rail of the peer.
// Messages are spread over lanes. The queue pairs of a lane take turns in carrying segments, because switches
// may choose a different path for each of them. Plain state of one connection; one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "net/limits.h"
#include "verbs/cm/connection_manager.h"
#include "verbs/gid.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

// One queue pair of a connection. It is destroyed before the completion queue and the memory that it uses.
struct LaneQueuePair {
  // ---- Fields that every message reads, on few cache lines (connection.h says why).
  alignas(64) ibv_qp* qp = nullptr;  // owned by `made` or `cm`
  // Work requests of the send queue, counted since the queue pair was made: posted, known to be complete, and
  // covered by a signalled work request.
  uint64_t posted = 0;
  uint64_t completed = 0;
  uint64_t covered = 0;
  // Until `posted` reaches this number, the send queue has room and no work request need be signalled for the
  // sake of the queue.
  uint64_t unsignalled_until = 0;
  uint32_t send_size = 0;
  uint32_t inline_bytes = 0;
  uint32_t consumed = 0;  // receives used up since the queue pair was made
  uint8_t index = 0;      // place among the queue pairs of the connection
  uint8_t lane = 0;
  uint8_t rail = 0;              // rail of this end
  uint8_t peer_rail = 0;         // rail of the peer
  uint32_t window_key = 0;       // local key of this end's window
  uint32_t peer_window_key = 0;  // remote key of the peer's window

  // ---- the rest
  verbs::QueuePair made;                    // empty once the connection manager owns the queue pair
  std::unique_ptr<verbs::CmConnection> cm;  // null unless the connection manager connects
  uint32_t max_request_bytes = 0;           // largest work request that both ports take
  uint32_t receives_posted = 0;
  uint32_t receives_failed = 0;
  bool connected = false;
  bool probed = false;  // iWARP: a read of the peer's window through this queue pair is unanswered
  bool used = true;     // false: no rail of the peer can be reached from `rail`

  std::optional<verbs::Gid> gid;  // RoCE: the GID that it sends from, unless the connection manager chose it

  uint64_t sendFree() const { return send_size - (posted - completed); }
  bool allCovered() const { return posted == covered; }
  // The last posted work request is signalled. Returns how many work requests its completion covers beyond
  // those already covered.
  uint32_t cover() {
    const auto newly = static_cast<uint32_t>(posted - covered);
    covered = posted;
    updateUnsignalledLimit();
    return newly;
  }
  void retire(uint32_t work_requests) {
    completed += work_requests;
    updateUnsignalledLimit();
  }

 private:
  // One signalled work request among so many keeps room in the send queue.
  static constexpr uint32_t kCoverEvery = 32;
  void updateUnsignalledLimit() {
    const uint64_t every = std::min(kCoverEvery, send_size / 2);
    unsignalled_until = std::min(covered + every - 1, completed + send_size);
  }
};

// The queue pairs of a lane, and which of them is next.
struct Lane {
  uint8_t next = 0;  // place of the next queue pair in queue_pairs
  uint8_t count = 0;
  std::array<uint8_t, kMaxQueuePairs> queue_pairs = {};
};

}  // namespace railwise::net
