// A lane: the way from one rail of this end to one rail of the other, with the queue pairs on it. Messages
// are spread over lanes; which of a lane's queue pairs carries a part is a matter of turns (they differ in
// the path that switches choose for them). Plain state of one connection; one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "net/limits.h"
#include "verbs/connection_manager.h"
#include "verbs/gid.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

// One queue pair of a connection. Destroyed before the completion queue and the memory that it uses.
struct LaneQueuePair {
  // ---- Fields that every message reads, on few cache lines (connection.h says why).
  alignas(64) ibv_qp* qp = nullptr;  // of `made` or `cm`
  // The send queue. Work requests are counted since ever: posted, known to be complete, and covered by a
  // completion that was asked for.
  uint64_t posted = 0;
  uint64_t completed = 0;
  uint64_t covered = 0;
  // Until so many are posted, one needs neither room nor a completion of its own (of many that ask for none).
  uint64_t quiet_until = 0;
  uint32_t send_size = 0;
  uint32_t inline_bytes = 0;
  uint32_t consumed = 0;  // receives used up since ever
  uint8_t index = 0;      // among those of the connection
  uint8_t lane = 0;
  uint8_t rail = 0;              // of this end
  uint8_t peer_rail = 0;         // of the other
  uint32_t window_key = 0;       // local key of this end's window
  uint32_t peer_window_key = 0;  // remote key of the other end's

  // ---- the rest
  verbs::QueuePair made;                    // empty once the connection manager owns it
  std::unique_ptr<verbs::CmConnection> cm;  // only where the connection manager connects
  uint32_t piece_bytes = 0;                 // largest work request both ports take
  uint32_t receives_posted = 0;
  uint32_t receives_failed = 0;
  bool connected = false;
  bool probed = false;  // the peer's device was asked through it, and has not answered yet (iWARP)
  bool used = true;     // false: no rail of the peer can be reached from this one

  std::optional<verbs::Gid> gid;  // RoCE: where it sends from, unless the connection manager has chosen it

  uint64_t sendFree() const { return send_size - (posted - completed); }
  bool allCovered() const { return posted == covered; }
  // The last that was posted asks for a completion: which tells of how many more?
  uint32_t cover() {
    const auto newly = static_cast<uint32_t>(posted - covered);
    covered = posted;
    quieten();
    return newly;
  }
  void retire(uint32_t work_requests) {
    completed += work_requests;
    quieten();
  }

 private:
  // A completion for every so many work requests keeps room in the queue.
  static constexpr uint32_t kCoverEvery = 32;
  void quieten() {
    const uint64_t every = std::min(kCoverEvery, send_size / 2);
    quiet_until = std::min(covered + every - 1, completed + send_size);
  }
};

// Which queue pairs belong to a lane, and whose turn it is.
struct Lane {
  uint8_t next = 0;  // turn
  uint8_t count = 0;
  std::array<uint8_t, kMaxQueuePairs> queue_pairs = {};
};

}  // namespace railwise::net
