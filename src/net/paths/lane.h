// A lane: the queue pairs of one rail pair, that is of one rail of this end and one rail of the peer.
// Messages are spread over lanes. The queue pairs of a lane take turns in carrying segments, because switches
// may choose a different path for each of them. Plain state of one connection; one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "net/limits.h"
#include "record/writer.h"
#include "verbs/cm/connection_manager.h"
#include "verbs/gid.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

// The content of wr_id: the queue pair; whether it is a receive; and of a work request that is signalled, how
// many work requests of the queue pair its completion covers. The other bits are the user's: 0 to 15 (of a
// receive the number of its buffer), 24, 26 to 31, and 48 to 63. Pure functions, any thread.

inline constexpr uint64_t kReceiveWork = uint64_t{1} << 25;

inline constexpr uint64_t workRequestId(std::size_t queue_pair) { return uint64_t{queue_pair} << 16; }
inline constexpr uint64_t receiveWorkId(uint32_t buffer, std::size_t queue_pair) {
  return buffer | workRequestId(queue_pair) | kReceiveWork;
}
inline constexpr uint64_t endsWorkRequests(uint32_t count) { return uint64_t{count} << 32; }

inline constexpr std::size_t workQueuePair(uint64_t id) { return (id >> 16) & 0xff; }
inline constexpr uint32_t workBuffer(uint64_t id) { return id & 0xffff; }
inline constexpr uint32_t workRequestsEnded(uint64_t id) { return (id >> 32) & 0xffff; }

// Distance from a queue pair, and from a connection, to its counts in the record (record/writer.h,
// PageMemory). The counts lie at a fixed place in front of the object, so the data path reaches them without
// a pointer.
inline constexpr std::size_t kRecordDistance = record::kPageBytes;

// Have all receives that were posted come back? Both numbers count since the queue pair was made and wrap
// after 2^32; they are less than 2^31 apart.
constexpr bool allCameBack(uint32_t posted, uint32_t came_back) {
  return static_cast<int32_t>(came_back - posted) >= 0;
}

// One queue pair of a connection. It lies in the memory of the connection (QueuePairs), a page behind its
// counts. It is destroyed before the completion queue and the memory that it uses.
struct alignas(64) LaneQueuePair {
  LaneQueuePair() : rest(std::make_unique<Rest>()) {}

  // Fields that no message reads.
  struct Rest {
    verbs::QueuePair made;                    // empty once the connection manager owns the queue pair
    std::unique_ptr<verbs::CmConnection> cm;  // null unless the connection manager connects
    uint32_t max_request_bytes = 0;           // largest work request that both ports take
    uint32_t receives_posted = 0;
    uint32_t receives_failed = 0;
    bool used = true;  // false: no rail of the peer can be reached from `rail`
    bool connected = false;
    std::optional<verbs::Gid>
        gid;  // RoCE: the GID that it sends from, unless the connection manager chose it
  };

  ibv_qp* qp = nullptr;  // owned by `made` or `cm`
  // Work requests of the send queue, counted since the queue pair was made. The send queue is full when
  // posted() reaches `full_at`, which is send_size behind those known to be complete. Covered by a signalled
  // work request:
  uint64_t full_at = 0;
  uint64_t covered = 0;
  // Until posted() reaches this number, the send queue has room and no work request need be signalled for the
  // sake of the queue.
  uint64_t unsignalled_until = 0;
  std::unique_ptr<Rest> rest;
  uint32_t consumed = 0;  // receives used up since the queue pair was made
  uint32_t inline_bytes = 0;
  uint32_t window_key = 0;       // local key of this end's window
  uint32_t peer_window_key = 0;  // remote key of the peer's window
  uint8_t index = 0;             // place among the queue pairs of the connection
  uint8_t rail = 0;              // rail of this end
  uint8_t rail_bit = 1;          // bit `rail` is set
  uint8_t peer_rail = 0;
  uint8_t lane = 0;
  uint8_t cover_every = 0;  // one signalled work request among so many keeps room in the send queue
  uint16_t send_size = 0;

  // The counts of this queue pair in the record.
  record::QueuePairRecord& counts() {
    return *reinterpret_cast<record::QueuePairRecord*>(reinterpret_cast<std::byte*>(this) - kRecordDistance);
  }
  const record::QueuePairRecord& counts() const { return const_cast<LaneQueuePair*>(this)->counts(); }
  uint64_t& posted() { return counts().posted; }
  uint64_t posted() const { return counts().posted; }

  uint64_t completed() const { return full_at - send_size; }
  // `full_at` reaches it when everything posted so far is complete.
  uint64_t fullAtWhenDone() const { return posted() + send_size; }
  uint64_t sendFree() const { return full_at - posted(); }
  bool allCovered() const { return posted() == covered; }
  // The last posted work request is signalled. Returns how many work requests its completion covers beyond
  // those already covered.
  [[gnu::always_inline]] uint32_t cover() {
    const auto newly = static_cast<uint32_t>(posted() - covered);
    covered = posted();
    updateUnsignalledLimit();
    return newly;
  }
  void setSendSize(uint32_t work_requests) {
    send_size = static_cast<uint16_t>(work_requests);
    full_at = work_requests;
    cover_every = static_cast<uint8_t>(std::min(kCoverEvery, work_requests / 2));
    updateUnsignalledLimit();
  }
  void retire(uint32_t work_requests) {
    full_at += work_requests;
    updateUnsignalledLimit();
  }
  // The device has not accepted the work requests from `first` to the end of their list: they do not count.
  // What is read from this end's window is no payload.
  void uncount(const ibv_send_wr* first) {
    for (const ibv_send_wr* work = first; work != nullptr; work = work->next) {
      --posted();
      counts().control_extra += counts().control_each;
      for (const ibv_sge& sge : std::span(work->sg_list, static_cast<std::size_t>(work->num_sge))) {
        if (sge.lkey == window_key) counts().control_extra -= sge.length;
        else (work->opcode == IBV_WR_RDMA_READ ? counts().got : counts().bytes) -= sge.length;
      }
    }
  }

 private:
  static constexpr uint32_t kCoverEvery = 32;
  void updateUnsignalledLimit() { unsignalled_until = std::min(covered + cover_every - 1, full_at); }
};
static_assert(kMaxQueuePairs == record::kQueuePairs);
static_assert(kMaxRails <= record::kPairs, "each rail may have a completion queue of its own");
static_assert(sizeof(LaneQueuePair) == sizeof(record::QueuePairRecord),
              "what counts for one lies a page in front of the other");

// The queue pairs of an endpoint, in memory of the connection that has a ConnectionPage in front of it.
class QueuePairs {
 public:
  static constexpr std::size_t kBytes = sizeof(LaneQueuePair) * kMaxQueuePairs;

  // `memory`: kBytes of what record::PageMemory::allocate() has returned, from its begin. No two lists with
  // queue pairs in them use one memory.
  explicit QueuePairs(void* memory) : first_(static_cast<LaneQueuePair*>(memory)) {}
  QueuePairs(QueuePairs&& other) noexcept : first_(other.first_), size_(std::exchange(other.size_, 0)) {}
  QueuePairs& operator=(QueuePairs&&) = delete;
  ~QueuePairs() { std::destroy_n(first_, size_); }

  // At most kMaxQueuePairs. Its counts are zero.
  LaneQueuePair& add() {
    assert(size_ < kMaxQueuePairs);
    LaneQueuePair& added = *std::construct_at(first_ + size_);
    ++size_;  // now it exists
    added.counts() = {};
    return added;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  LaneQueuePair* begin() { return first_; }
  LaneQueuePair* end() { return first_ + size_; }
  const LaneQueuePair* begin() const { return first_; }
  const LaneQueuePair* end() const { return first_ + size_; }
  LaneQueuePair& operator[](std::size_t index) { return first_[index]; }
  const LaneQueuePair& operator[](std::size_t index) const { return first_[index]; }

 private:
  LaneQueuePair* first_;
  std::size_t size_ = 0;
};

// The queue pairs of a lane, and which of them is next.
struct Lane {
  // The queue pair that carries the next segment.
  uint8_t takeTurn() {
    const uint8_t turn = next;
    next = static_cast<uint8_t>(turn + 1 < count ? turn + 1 : 0);
    return queue_pairs[turn];
  }

  uint8_t next = 0;  // place of the next queue pair in queue_pairs
  uint8_t count = 0;
  std::array<uint8_t, kMaxQueuePairs> queue_pairs = {};
};

}  // namespace railwise::net
