// The receiving end of a connection: tells the sender where to write, and sees from the immediates what has
// arrived. Threads: see connection.h.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/fixed_pool.h"
#include "net/connection.h"
#include "net/postponed.h"

namespace railwise::net {

// One receive of a grouped irecv.
struct ReceiveBuffer {
  uint64_t address;
  std::size_t bytes;
  int tag;
  const MemoryHandle* memory;  // may be null when bytes is 0
  void* profiler;              // NCCL's handle for events, or null
};

class ReceiveConnection final : public Connection {
 public:
  // Pairs the rails with those of the request and makes the queue pairs. `refusal` tells the peer why when
  // that fails.
  static Result<std::unique_ptr<ReceiveConnection>> create(const Device& device,
                                                           const ConnectionOptions& options,
                                                           const EndInfo& request, std::string& refusal);
  // What the reply says of this end.
  const EndInfo& local() const { return local_; }
  // Before the reply: queue pairs to "ready to send", or the places where the connection manager listens.
  // ETIMEDOUT: a way is not resolved yet (ARP); the same again later.
  Status prepare(const EndInfo& request);
  // After the reply: true when all queue pairs are up.
  Result<bool> establish(const EndInfo& request, uint64_t nonce);

  // Receives up to kMaxReceives messages as one request. *request null: too many outstanding, call again.
  // `silent`: NCCL sees by itself when the data are there; the request is complete at once. The sender hears
  // of it now or with the next test() of a request of this connection that is not known to be complete: as
  // many receives as were posted between two such tests are expected between the next two, and travel
  // together.
  Status irecv(std::span<const ReceiveBuffer> buffers, bool silent, Request** request);
  // Makes received data visible to whoever reads `address` behind the NIC: a read of it through each rail
  // that carried data of the receive there. *request null: nothing to wait for (NCCL_GDR_FLUSH_DISABLE).
  Status iflush(uint64_t address, const MemoryHandle& memory, Request** request);
  Status progress(const Request& request, bool* done);
  // Posts the clear-to-sends that wait for more of their kind.
  void postForOther();
  // Bytes of the largest receive that is open, as far as its buffers say.
  uint64_t largestUnderWay() const;
  // Asks for a completion of all clear-to-sends so far; `anew`: also when there was one.
  Status ask(bool anew);

  // Of a connection that has lost its queue pairs (receive_failover.cc).
  Status recover();
  Status onFrame(MessageType type, std::span<const std::byte> bytes);
  void stopStraight() { straight_ = false; }
  // Tells the sender what this end can be reached by, where that has changed.
  void offerAnew();

  // The sizes of a receive that has completed; `sizes` may be null. The request is free.
  void finish(Request& request, int* sizes);

 private:
  // What of a receive belongs to one of its buffers.
  struct Piece {
    uint32_t size;  // that has arrived
    uint32_t room;  // that the posted buffer has
    uint64_t address;
  };
  // The first cache line is all that a receive of one buffer needs.
  struct alignas(64) Receive : Request {
    uint32_t arrived = 0;     // bit p: part p is here
    uint32_t parts = 0;       // 0: not yet known
    uint32_t least_room = 0;  // of its buffers
    uint16_t rails = 0;       // bit r: rail r has carried some of it
    bool alike = false;       // the messages are of one size
    bool host = false;        // all of its buffers are host memory
    bool silent = false;
    bool profiled = false;  // some event is not null
    std::array<Piece, kMaxReceives> pieces = {};
    std::array<void*, kMaxReceives> events = {};  // the profiler's
  };
  struct Flush : Request {
    uint32_t reads = 0;  // outstanding
    uint64_t address = 0;
    const MemoryHandle* memory = nullptr;
    uint32_t rails = 0;
    int failures = 0;
    bool again = false;  // one of its reads has failed
    Clock::time_point posted = {};
  };
  // A queue pair connected to itself. It outlives epochs.
  struct FlushPath {
    Rail rail;
    verbs::Cq cq;
    verbs::Qp qp;
  };
  static constexpr uint32_t kReplenish = kOutstandingReceives;
  static constexpr uint32_t kClearToSendDepth = 64;
  static constexpr uint32_t kClearToSendSignal = 16;  // every so many ask for a completion

  using Connection::Connection;
  // Set-up (receive_connection.cc).
  Status openWindow(int queue_pairs);
  // Does this connection begin without queue pairs, since an end has no port that works?
  bool beginsLostWith(const EndInfo& request) const;
  void beginWithoutQueuePairs(const EndInfo& request);
  // Else: pairs the rails and makes the queue pairs.
  Status openFirst(const EndInfo& request, std::string& refusal);
  Status checkLinkLayer(const EndInfo& request, std::string& refusal) const;
  Status pair(const EndInfo& request, std::string& refusal);
  Status openQueuePairs();
  void describePairing(const EndInfo& request);
  Status listenForConnectionManager();
  Status answer(verbs::CmRequest request, uint8_t rail, const EndInfo& peer, uint64_t nonce);
  Result<FlushPath*> openFlushPath(const Rail& rail);

  // Data path (receive_datapath.cc).
  Status postReceives(std::size_t queue_pair, uint32_t first);
  static uint32_t roomOf(const ReceiveBuffer& buffer);
  static ClearToSend entryOf(const ReceiveBuffer& buffer, uint32_t room, uint32_t arrived, uint64_t stamp);
  void open(Receive& receive, uint32_t count, uint32_t room) const;
  Status irecvOtherwise(std::span<const ReceiveBuffer> buffers, bool silent, Request** request);
  Status postPending();
  void fillMoreKeys(MoreKeys& keys, const MemoryHandle& memory) const;
  void fillGroup(Receive& receive, uint32_t slot, std::span<const ReceiveBuffer> buffers);
  void nextClearToSend(LaneQueuePair& queue_pair, ibv_send_wr& work, ibv_sge& segment);
  std::byte* stagingOf(uint32_t slot, uint32_t i) const;
  uint32_t railsOf(uint64_t address) const;
  FlushPath* flushPath(const Rail& rail);
  Status postFlush(Flush& flush);
  Status readThrough(Flush& flush, uint8_t rail);
  void pollFlushes();
  void dropFlushPaths();
  Status progressFlush(Flush& flush, bool* done);
  Status flushAgain(Flush& flush);
  Status poll();
  void onCompletion(const ibv_wc& completion);
  Status onData(std::size_t queue_pair, const ibv_wc& completion);
  Status onWhole(LaneQueuePair& queue_pair, std::size_t index, uint32_t value);
  Status onPacked(LaneQueuePair& queue_pair, std::size_t index, uint32_t value);
  Status onPart(std::size_t queue_pair, uint32_t value, const Record* record, uint32_t record_bytes);
  Status endRow();
  Status continueRow();
  void complete(Receive& receive);
  void advanceArrived();
  void makeSilent(Receive& receive) const;
  bool blocked() const;
  static uint32_t sizeOf(const Receive& receive, std::size_t i);
  Status failTooLong(uint32_t bytes, uint32_t room);
  Status failNotOpen(uint32_t slot);
  void startEvents(Receive& receive, std::span<const ReceiveBuffer> buffers);
  void stopEvents(Receive& receive);

  // Failover.
  bool drained() const;
  void forgetParts();
  void sendSettle();
  void toEpoch(uint64_t epoch);
  Status onPropose(const ProposeFrame& frame);
  bool openEpoch(const ProposeFrame& frame);
  void refuseEpoch(uint8_t queue_pair, const std::string& what);
  Status connectEpoch();
  Status begin();
  bool writeKeys(const Receive& receive, uint32_t place);
  uint32_t placeOf(uint64_t number) const;
  void onTrial(const TrialFrame& frame);
  void sendRails();

  EndInfo local_ = {};
  Record* records_ = nullptr;         // written by the sender
  Pack* packs_ = nullptr;             // by the sender, too
  std::byte* staging_ = nullptr;      // source of the clear-to-send writes
  Record* notices_ = nullptr;         // iWARP: buffers of the receives
  uint64_t* flush_target_ = nullptr;  // where flush reads land
  uint32_t entry_bytes_ = sizeof(ClearToSend);
  bool plain_ = false;          // one rail, not iWARP: clear-to-send has one key, and is a write
  bool straight_ = false;       // and the connection is well, on its own rail
  bool may_be_silent_ = false;  // receives may go without a completion: NCCL_NET_OPTIONAL_RECV_COMPLETION
  struct RailListener {
    uint8_t rail;
    verbs::CmListener listener;
  };
  std::vector<RailListener> cm_listeners_;  // while connecting
  std::vector<std::unique_ptr<FlushPath>> flush_paths_;
  // Failover: when draining began; what this end has offered last, and whether the proposal was answered.
  std::optional<Deadline> drain_;
  Clock::time_point connect_until_ = {};
  Clock::time_point next_look_ = {};
  std::vector<Rail> offered_;
  EndInfo offer_ = {};
  bool accept_sent_ = false;
  std::optional<TrialQueuePair> trial_;  // that the sender reads through
  Status flush_failure_;                 // flushes need no peer: they outlive the failure of the connection
  uint64_t next_number_ = 1;             // of the next receive
  uint64_t consumed_number_ = 0;         // the sender has matched all receives up to this one
  // Places in the sender's ring, before they are wrapped: of the next entry, of the first that is not posted.
  uint32_t next_place_ = 0;
  uint32_t posted_place_ = 0;
  // Of the receives posted since the last test(): the first, and the one with which they are posted.
  uint64_t row_begin_ = 1;
  uint64_t post_at_ = 0;
  uint64_t notice_at_ = 0;        // what comes first of a begin that waits, and post_at_
  uint8_t reply_queue_pair_ = 0;  // the one that brought data last: clear to send goes back there
  std::array<ibv_recv_wr, kReplenish> receive_chain_ = {};
  std::array<ibv_sge, kReplenish> receive_segments_ = {};
  std::array<Receive, kSlots> receives_;
  // Of their buffers, for the keys of another rail.
  std::array<std::array<const MemoryHandle*, kMaxReceives>, kSlots> memories_ = {};
  FixedPool<Flush, kOutstandingFlushes> flushes_;
  Postponed postponed_{*this};
};

inline ClearToSend ReceiveConnection::entryOf(const ReceiveBuffer& buffer, uint32_t room, uint32_t arrived,
                                              uint64_t stamp) {
  const uint32_t key = buffer.memory != nullptr ? buffer.memory->keys[0].remote : 0;
  return {buffer.address, key, static_cast<uint32_t>(buffer.tag), room, arrived, stamp};
}

inline uint32_t ReceiveConnection::roomOf(const ReceiveBuffer& buffer) {
  return static_cast<uint32_t>(std::min<std::size_t>(buffer.bytes, kMaxMessageBytes));
}

// One buffer on one rail: straight down. It is posted now when as many were posted the last time between two
// tests; else the thread calls again, for the next receive or for test().
[[gnu::always_inline]] inline Status ReceiveConnection::irecv(std::span<const ReceiveBuffer> buffers,
                                                              bool silent, Request** request) {
  Receive& made = receives_[next_number_ % kSlots];
  const ReceiveBuffer& buffer = buffers[0];
  const bool straight = buffers.size() == 1 && straight_ && !silent && buffer.profiler == nullptr &&
                        made.kind == Request::Kind::kFree && next_number_ <= consumed_number_ + kSlots;
  if (!straight) [[unlikely]]
    return irecvOtherwise(buffers, silent, request);
  const uint32_t room = roomOf(buffer);
  const uint32_t place = next_place_ % kRingEntries;
  *reinterpret_cast<ClearToSend*>(staging_ + std::size_t{place} * sizeof(ClearToSend)) =
      entryOf(buffer, room, static_cast<uint32_t>(arrived_), makeStamp(next_number_, place, 1, 0));
  open(made, 1, room);
  made.pieces[0] = {0, room, buffer.address};
  memories_[next_number_ % kSlots][0] = buffer.memory;
  *request = &made;
  ++next_place_;
  return ++next_number_ < notice_at_ ? Status::success() : continueRow();
}

inline void ReceiveConnection::open(Receive& receive, uint32_t count, uint32_t room) const {
  receive.number = next_number_;
  receive.kind = Request::Kind::kReceive;
  receive.done = false;
  receive.count = static_cast<uint8_t>(count);
  receive.arrived = 0;
  receive.parts = 0;
  receive.least_room = room;
  receive.rails = 0;
  receive.alike = receive.host = receive.silent = receive.profiled = false;
}

}  // namespace railwise::net
