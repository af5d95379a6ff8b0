// The receiving end of a connection. It writes clear-to-sends, which tell the sender where to write, and
// learns from the immediates what has arrived. Threads: see connection.h.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "net/connection/connection.h"
#include "net/paths/answerer.h"
#include "net/paths/work_id.h"
#include "net/receiver/flusher.h"

namespace railwise::net {

// One of the buffers that irecv takes.
struct ReceiveBuffer {
  uint64_t address;
  std::size_t bytes;
  int tag;
  const MemoryHandle* memory;  // may be null when bytes is 0
  void* profiler;              // NCCL's handle for events, or null
};

class ReceiveConnection final : public Connection, private Flusher::Host {
 public:
  // Pairs the rails with the rails of the request, and makes the queue pairs. If the peer is refused,
  // `refusal` receives the reason for the peer.
  static Result<std::unique_ptr<ReceiveConnection>> create(const Device& device,
                                                           const ConnectionOptions& options,
                                                           const EndInfo& request, std::string& refusal);
  // What the handshake needs of this end.
  Answerer& answerer() { return answerer_; }

  // Receives up to kMaxReceives messages as one request. *request null: too many requests are outstanding,
  // call again. `silent`: NCCL sees by itself when the data are there, so the request is complete at once.
  Status irecv(std::span<const ReceiveBuffer> buffers, bool silent, Request** request);
  // Makes received data visible to a GPU that reads `address`: reads it through each rail that carried data
  // of that receive. *request null: no flush is needed (NCCL_GDR_FLUSH_DISABLE).
  Status iflush(uint64_t address, const MemoryHandle& memory, Request** request);
  Status testSlowPath(Request& request, bool* done, int* sizes) override;

 private:
  static constexpr uint64_t kAllArrived = UINT64_MAX;
  // A receive of one buffer uses only the first cache line.
  struct alignas(64) Receive : Request {
    Receive() {
      counter = &arrived;
      due = kAllArrived;
    }
    Receive(const Receive&) = delete;
    Receive& operator=(const Receive&) = delete;

    uint16_t rails = 0;       // bit r: rail r has carried some of its data
    uint64_t arrived = 0;     // bit i: segment i has arrived; kAllArrived: the receive is complete
    uint32_t least_room = 0;  // bytes that fit its smallest buffer
    uint8_t segments = 0;     // number of segments; 0: not yet known
    bool alike = false;       // the messages are of one size
    bool silent = false;
    bool profiled = false;                              // some event in `events` is not null
    std::array<uint64_t, kMaxReceives> addresses = {};  // of the buffers
    // Of several buffers:
    std::array<uint32_t, kMaxReceives> rooms = {};  // bytes that fit
    bool host = false;                              // all are host memory
    // Set when a record has arrived:
    std::array<uint32_t, kMaxReceives> sizes = {};  // bytes that have arrived
    std::array<void*, kMaxReceives> events = {};    // the profiler's events

    bool isOpen() const { return kind == Kind::kReceive && !complete(); }
    uint32_t room(std::size_t i) const { return count > 1 ? rooms[i] : least_room; }
    uint64_t allRoom() const {
      uint64_t sum = 0;
      for (std::size_t i = 0; i < count; ++i) sum += room(i);
      return sum;
    }
  };
  static constexpr uint32_t kReplenish = kOutstandingReceives;
  static constexpr uint32_t kClearToSendDepth = 128;
  // One clear-to-send among so many is signalled. A short send queue has a smaller number.
  static constexpr uint32_t kClearToSendSignal = 96;

  ReceiveConnection(const Device& device, const ConnectionOptions& options, const EndInfo& request);

  void handleCompletions(const ibv_wc* completions, int count) noexcept override;

  // What the link asks (paths/link_user.h): receive_connection.cc, and receiver_recovery.cc.
  QueuePairNeeds needs() const override;
  int mostRails() const override { return net::mostRails(entry_bytes_); }
  Result<Window> makeWindow(bool registers) override;
  int postFirstReceives(std::size_t queue_pair) override;
  void onPaired() override;
  bool takeRails() override;
  void onLost() noexcept override { fast_path_open_ = false; }
  Status poll() override;
  void onFenced() override;
  Words words() const override;
  bool isOpen() override;
  Status onBegun() override;
  bool onNews(uint64_t number) override { return number > arrivedUpTo() + 1; }
  UnderWay underWay() const override;
  // Bytes of the largest open receive, as far as the size of its buffers shows.
  uint64_t largestUnderWay() const override;

  // Polls for completions. *done: `request` has completed.
  Status progress(const Request& request, bool* done);
  // Writes the sizes of a completed receive to `sizes` (may be null), and frees the request.
  void finish(Request& request, int* sizes);
  void onCompletion(const ibv_wc& completion);
  // What flusher_ needs.
  bool canFlushElsewhere() const override { return link_.canFailOver(); }
  std::vector<Rail> railsForFlush() const override;
  Result<MemoryKeys> flushKeys(const MemoryHandle& memory, const Rail& rail) const override {
    return keysOn(link_.device, memory, rail);
  }
  uint32_t flushTargetKey(const Rail& rail) const override {
    return windowKeysOn(link_.device, *link_.window, rail).local;
  }
  Status failFlush(Status status, const std::string& what) override { return link_.fail(status, what); }
  Status waitForFlush() override {
    (void)link_.idle(Waiting::kPeer);
    return link_.failure;
  }

  // Data path (receiver/arrivals.cc).
  int tryToPostReceives(std::size_t queue_pair, uint32_t first);  // what ibv_post_recv returns
  Status postReceives(std::size_t queue_pair, uint32_t first);
  static uint32_t roomOf(const ReceiveBuffer& buffer);
  static ClearToSend entryOf(const ReceiveBuffer& buffer, uint32_t room, uint64_t stamp);
  void open(Receive& receive, uint32_t count, uint32_t room) const;
  Status irecvSlowPath(std::span<const ReceiveBuffer> buffers, bool silent, Request** request);
  Status postPending();
  void fillMoreKeys(MoreKeys& keys, const MemoryHandle& memory) const;
  void fillGroup(Receive& receive, uint32_t slot, std::span<const ReceiveBuffer> buffers);
  Status postOne(uint32_t place);
  void fillClearToSend(ibv_send_wr& work, ibv_sge& sge, LaneQueuePair& queue_pair, std::size_t offset) const;
  uint64_t clearToSendId(LaneQueuePair& queue_pair, unsigned int& send_flags) const;
  void nextClearToSend(LaneQueuePair& queue_pair, ibv_send_wr& work, ibv_sge& sge);
  std::byte* stagingOf(uint64_t number, uint32_t i) const;
  const Receive* latestAt(uint64_t address) const;
  std::vector<Rail> earlierRailsOf(const Receive* receive) const;
  Status onData(std::size_t queue_pair, const ibv_wc& completion);
  Status onWhole(LaneQueuePair& queue_pair, std::size_t index, uint32_t value);
  Status onPacked(LaneQueuePair& queue_pair, std::size_t index, uint32_t value);
  Status onSegment(std::size_t queue_pair, uint32_t value, const Record* record, uint32_t record_bytes);
  void complete(Receive& receive);
  void advanceArrived();
  void makeSilent(Receive& receive) const;
  bool blocked() const;
  static uint32_t sizeOf(const Receive& receive, std::size_t i);
  Status failTooLong(uint32_t bytes, uint32_t room);
  Status failNotOpen(uint32_t slot);
  void startEvents(Receive& receive, std::span<const ReceiveBuffer> buffers);
  void stopEvents(Receive& receive);

  // Recovery (receiver/receiver_recovery.cc).
  void forgetSegments();
  void keepRailsForFlush();
  bool writeKeys(const Receive& receive);

  // ---- Members that every receive of one buffer reads, on few cache lines (connection.h says why).
  alignas(64) std::byte* staging_ = nullptr;            // source of the clear-to-send writes
  uint32_t clear_to_send_signal_ = kClearToSendSignal;  // kClearToSendSignal, or less for a short send queue
  uint8_t reply_queue_pair_ = 0;  // the queue pair that brought data last; clear-to-sends go over it
  // The fast path is open: one rail, not iWARP, and the connection runs on its own rail.
  bool fast_path_open_ = false;
  bool may_be_silent_ = false;  // silent receives are allowed: NCCL_NET_OPTIONAL_RECV_COMPLETION
  // The latest receive that is complete and not silent. The sender has matched all receives up to it, so also
  // the silent ones are over.
  uint64_t matched_ = 0;

  // ---- the rest
  Record* records_ = nullptr;  // written by the sender
  Pack* packs_ = nullptr;      // written by the sender
  MessageBuffers notices_;     // iWARP: buffers of the posted receives
  uint32_t entry_bytes_ = sizeof(ClearToSend);
  bool plain_ = false;  // one rail, not iWARP: a clear-to-send has one key and is an RDMA write
  Answerer answerer_;
  std::array<ibv_recv_wr, kReplenish> receive_chain_ = {};
  std::array<ibv_sge, kReplenish> receive_sges_ = {};
  std::array<Receive, kSlots> receives_;
  // The memory of each buffer, for the keys through another rail: [0] has the first buffer of each receive,
  // [1] the second, and so on.
  std::array<std::array<const MemoryHandle*, kSlots>, kMaxReceives> memories_ = {};
  // The rails of earlier epochs, which may have written the receives up to a number: they are flushed there.
  struct Earlier {
    std::vector<Rail> rails;
    uint64_t up_to = 0;
  };
  Earlier earlier_;
  Flusher flusher_{*this, link_.config};
};

inline ClearToSend ReceiveConnection::entryOf(const ReceiveBuffer& buffer, uint32_t room, uint64_t stamp) {
  const uint32_t key = buffer.memory != nullptr ? buffer.memory->keys[0].remote() : 0;
  return {0, key, buffer.address, static_cast<uint32_t>(buffer.tag), room, stamp};
}

inline uint32_t ReceiveConnection::roomOf(const ReceiveBuffer& buffer) {
  return static_cast<uint32_t>(std::min<std::size_t>(buffer.bytes, kMaxMessageBytes));
}

// Fast path of irecv: one buffer on one rail.
[[gnu::always_inline]] inline Status ReceiveConnection::irecv(std::span<const ReceiveBuffer> buffers,
                                                              bool silent, Request** request) {
  Receive& made = receives_[numbers().next % kSlots];
  const ReceiveBuffer& buffer = buffers[0];
  const bool fast = buffers.size() == 1 && fast_path_open_ && !(silent && may_be_silent_) &&
                    buffer.profiler == nullptr && made.kind == Request::Kind::kFree &&
                    numbers().next <= matched_ + kSlots;
  if (!fast) [[unlikely]]
    return irecvSlowPath(buffers, silent, request);
  const uint32_t room = roomOf(buffer);
  const uint32_t place = ringPlace(numbers().next);
  *reinterpret_cast<ClearToSend*>(staging_ + std::size_t{place} * sizeof(ClearToSend)) =
      entryOf(buffer, room, makeStamp(numbers().next, 1, 0));
  open(made, 1, room);
  made.addresses[0] = buffer.address;
  memories_[0][numbers().next % kSlots] = buffer.memory;
  *request = &made;
  ++numbers().next;
  return postOne(place);
}

// Posts the last receive's clear-to-send, at `place`, unless earlier ones are not posted yet. One rail, not
// iWARP.
[[gnu::always_inline]] inline Status ReceiveConnection::postOne(uint32_t place) {
  LaneQueuePair& queue_pair = queuePair(reply_queue_pair_);
  if (numbers().posted + 1 != numbers().next || queue_pair.sendFree() == 0) [[unlikely]]
    return postPending();
  ++numbers().posted;
  const std::size_t offset = std::size_t{place} * sizeof(ClearToSend) + kUnwrittenBytes;
  ibv_sge sge = {reinterpret_cast<uint64_t>(staging_ + offset), sizeof(ClearToSend) - kUnwrittenBytes,
                 queue_pair.window_key};
  ibv_send_wr work;
  work.opcode = IBV_WR_RDMA_WRITE;
  fillClearToSend(work, sge, queue_pair, offset);
  // The call orders the stores of the clear-to-send before the doorbell.
  return link_.post(queue_pair, &work);
}

// Fills in everything except the opcode. The bytes of `sge` go to `offset` in the peer's window.
[[gnu::always_inline]] inline void ReceiveConnection::fillClearToSend(ibv_send_wr& work, ibv_sge& sge,
                                                                      LaneQueuePair& queue_pair,
                                                                      std::size_t offset) const {
  work.next = nullptr;
  work.sg_list = &sge;
  work.num_sge = 1;
  work.send_flags = sge.length <= queue_pair.inline_bytes ? IBV_SEND_INLINE : 0;
  work.wr.rdma.remote_addr = link_.peer_window + offset;
  work.wr.rdma.rkey = queue_pair.peer_window_key;
  work.wr_id = clearToSendId(queue_pair, work.send_flags);
}

// Counts one clear-to-send. One among clear_to_send_signal_ is signalled; an unsignalled one still reports an
// error.
inline uint64_t ReceiveConnection::clearToSendId(LaneQueuePair& queue_pair, unsigned int& send_flags) const {
  uint32_t covers = 0;
  if (++queue_pair.posted() - queue_pair.covered == clear_to_send_signal_) [[unlikely]] {
    send_flags |= IBV_SEND_SIGNALED;
    covers = queue_pair.cover();
  }
  return workRequestId(queue_pair.index) | endsWorkRequests(covers);
}

inline void ReceiveConnection::open(Receive& receive, uint32_t count, uint32_t room) const {
  receive.number = numbers().next;
  receive.kind = Request::Kind::kReceive;
  receive.count = static_cast<uint8_t>(count);
  receive.arrived = 0;
  receive.segments = 0;
  receive.least_room = room;
  receive.rails = 0;
  receive.alike = receive.silent = receive.profiled = false;
}

}  // namespace railwise::net
