// The sending end of a connection. It finds the receiver's clear-to-send, cuts a message into segments (Part)
// for the lanes, posts them, and sees them complete. Threads: see connection.h.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <memory>

#include "net/connection/connection.h"
#include "net/protocol/batch_length.h"
#include "net/protocol/send_work_id.h"
#include "net/protocol/work_request_chain.h"
#include "net/recovery/epoch_plan.h"
#include "net/recovery/failback.h"

namespace railwise::net {

class SendConnection final : public Connection, private Failback::Host {
 public:
  // Makes a connection with queue pairs for the rails of the listener that wrote `handle`.
  static Result<std::unique_ptr<SendConnection>> create(const Device& device,
                                                        const ConnectionOptions& options,
                                                        const ListenHandle& handle);
  // Describes this end for the connect request. Errors: kSystem, logged (no usable GID).
  Status describe(EndInfo& end) const;

  // Takes over the pairing from the reply and brings the queue pairs up. False: not all queue pairs are up
  // yet, call again.
  Result<bool> establish(const EndInfo& local, const EndInfo& reply, uint64_t nonce);

  // Sends `bytes` at `address` to the next receive with `tag`. *request null: the receiver is not ready, call
  // again. `memory` may be null when bytes is 0; `profiler` is NCCL's handle for events, or null. Errors:
  // kInvalidArgument (longer than the receive or than the device's limit).
  Status isend(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory, void* profiler,
               Request** request) {
    *request = nullptr;
    return mustWait() ? Status::success() : isendReady(address, bytes, tag, memory, profiler, request);
  }
  // First half of isend(): true if there is no clear-to-send for the next message and the connection is on
  // its fast path.
  bool mustWait() {
    const uint64_t stamp = __atomic_load_n(&entryOf(next_number_).stamp, __ATOMIC_ACQUIRE);
    return stampNumber(stamp) < next_number_ && only_cq_ != nullptr && !fast_path_closed_ && maySkipIdle();
  }
  // Second half of isend(): every other case.
  Status isendReady(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory, void* profiler,
                    Request** request);
  // The receiver has reported that all receives up to `number` are complete.
  void onArrived(uint64_t number) {
    // The peer cannot report more than was sent.
    if (number > arrived_) arrived_ = std::min(number, next_number_ - 1);
  }
  Status testSlowPath(Request& request, bool* done, int* sizes) override;

 private:
  // One send: what NCCL holds as its request.
  struct alignas(64) Message : Request {
    uint64_t address = 0;
    const MemoryHandle* memory = nullptr;
    void* profiler = nullptr;  // NCCL's handle for events, or null
    // Of a posted message that is not cut into segments: complete when its queue pair has completed so many
    // work requests.
    uint64_t position = UINT64_MAX;
    int tag = 0;
    uint8_t queue_pair = 0;
  };
  static_assert(sizeof(Message) == 64, "one cache line");
  // A segment: what one lane carries of a group. It is a range of the group's bytes, with all messages laid
  // end to end.
  struct Part {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint8_t queue_pair = 0;
  };
  // The sends for one receive.
  struct Group {
    uint64_t number = 0;  // number of the receive; 0: none yet
    uint8_t count = 0;    // number of messages
    uint8_t matched = 0;
    uint8_t parts = 0;
    uint8_t parts_posted = 0;
    uint8_t parts_done = 0;
    uint8_t record_part = 0;
    bool silent = false;    // the receiver wants no completion
    bool profiled = false;  // NCCL wants profiler events of some message
    bool alike = false;     // the messages so far are of one size
    bool small = false;     // the messages need not be signalled; their writes are prepared
    bool packed = false;    // instead, the bytes of the messages are in pack_
    bool in_order = false;  // the messages came in the order of the entries
    uint32_t each = 0;      // size of the first message that came
    bool recorded = false;  // sizes and number of segments are in a record
    bool again = false;     // after a failure the group must be posted once more
    bool tail = false;  // all bytes of the segment that is being posted are posted, but not what follows them
    uint64_t posted = 0;                               // bytes posted, over all segments
    std::array<Message*, kMaxReceives> messages = {};  // null: not yet given to isend

    bool free() const { return parts_done == parts; }
  };

  using Connection::Connection;

  // What a sender does differently from a receiver (connection.h).
  void handleCompletions(const ibv_wc* completions, int count) noexcept override;
  void leaveFastPath() override {
    open_group_ = nullptr;
    fast_path_closed_ = true;
    smallMayGo(false);
  }
  Status advanceRecovery() override;                                                // sender/failover.cc
  Status onPeerFrame(MessageType type, std::span<const std::byte> bytes) override;  // sender/failover.cc
  void onLastArrived(uint64_t number) override { hearArrived(number); }
  void onPortsChanged() override { failback_.lookSoon(); }
  void lookForBetter(Clock::time_point now) override;
  // Called by isend while fast_path_closed_ is set. Checks the peer on every 64th call, when the bell has
  // rung, and during a trial. Drives the recovery if the connection does not run.
  Status lookAround();
  Status requestCompletions(bool anew) override;
  uint64_t largestUnderWay() const override;

  // Polls for completions. *done: `request` has completed.
  Status progress(const Request& request, bool* done);
  Status onCompletion(const ibv_wc& completion);
  // The receiver has reported over the side channel that all receives up to `number` are complete.
  void hearArrived(uint64_t number);
  // Set-up (send_connection.cc).
  Status openWindow(int peer_rails, int lanes, int queue_pairs);
  Status openQueuePairs(int count, int lanes);
  // Ends the handshake when one end has no path. The recovery then finds one.
  void beginWithoutQueuePairs(const EndInfo& local, const EndInfo& reply);
  void adoptPairing(const EndInfo& local, const EndInfo& reply);
  void prepareSmall();

  // Failover.
  void tearDown();
  void onSettle(const SettleFrame& frame);
  Status onAccept(const AcceptFrame& frame);
  void completeArrived();
  Status reconcileMessages();
  Status reconcileReceive(uint64_t number, bool arrived);
  bool unfinished() const;
  Message* messageOf(uint64_t number);
  Status failLost(uint64_t number);
  Status keepGroup(Group& group, uint64_t number);
  void tryToConnect();
  // What failback_ needs (sender/failover.cc).
  std::vector<Rail> railsToOffer(int* native) const override { return usableRails(native); }
  EndInfo offerOf(const std::vector<Rail>& rails) const override { return describeOffer(rails); }
  void askForRails() override;
  void sendTrial(const TrialFrame& frame) override { side_channel_.send(frame); }
  Result<TrialQueuePair> openTrialOn(const Rail& rail) const override { return openTrial(rail, config_); }
  bool readThrough(const TrialQueuePair& trial, const EndInfo& offer, std::size_t local_rail,
                   std::size_t local_gid, const EndInfo& reply, std::size_t remote_gid) override;
  void goBack() override;

  bool openEpoch(const EpochPlan& plan);
  bool isWhole(const EpochPlan& plan, const EndInfo& offer, int native) const;
  void propose(const EpochPlan& plan);
  Status connectEpoch();
  Status begin();
  Result<uint32_t> localKey(const Message& message, const LaneQueuePair& queue_pair);
  int queuePairsPerLane(std::size_t lanes) const;
  Status openQueuePairsOn(const std::vector<uint8_t>& rail_of);
  void warnOfRails(const RailInfo& here, const RailInfo& there) const;
  Status call(std::size_t index, const EndInfo& local, const EndInfo& reply, uint64_t nonce);

  // Data path (sender/datapath.cc).
  Status postNoticeReceive(std::size_t queue_pair, uint32_t buffer);
  Status onClearToSend(std::size_t queue_pair, uint32_t buffer, uint32_t bytes);
  // The clear-to-send entry for buffer `i` of receive `number`, if it has arrived.
  const ClearToSend& entryOf(uint64_t number, uint32_t i = 0) const {
    // The keys through further rails stand in front of each entry.
    return *reinterpret_cast<const ClearToSend*>(ring_ + std::size_t{ringPlace(number) + i} * entry_bytes_ +
                                                 entry_bytes_ - sizeof(ClearToSend));
  }
  Part* partsOf(std::size_t slot) const { return &parts_[slot * endpoint_.lanes.size()]; }
  Status drain();
  Status wait(Status drained);
  // For waits that poll nothing. On iWARP they drain the completion queues, to see the answer to a read of
  // the peer's window.
  Status idleAfterDrain(Waiting waiting) {
    if (iwarp()) RAILWISE_TRY(drain());
    return idle(waiting);
  }
  [[gnu::cold, gnu::noinline]] Status onFailedCompletion(LaneQueuePair& queue_pair, const ibv_wc& completion);
  Status lookForClearToSend();
  Status failClearToSend(uint64_t stamp);
  Status notReady();
  Status sendWhole(const ClearToSend& entry, uint64_t address, uint32_t bytes, const MemoryHandle& memory,
                   Message& message, LaneQueuePair& queue_pair);
  Status sendApart(const ClearToSend& entry, uint64_t address, uint32_t bytes, const MemoryHandle& memory,
                   Message& message, LaneQueuePair& queue_pair);
  void describe(Message& message, uint64_t address, uint32_t bytes, const MemoryHandle& memory,
                const LaneQueuePair& queue_pair) const;
  void advance();
  void takeSmallTurn();
  Status thenNextTurn(Status posted) {
    if (small_turns_) takeSmallTurn();
    return posted;
  }
  void smallMayGo(bool now) {
    small_now_ = now ? small_bytes_ : 0;
    fast_path_bytes_ = small_turns_ ? 0 : small_now_;
  }
  bool mustSignal(const LaneQueuePair& queue_pair);
  void signalWith(ibv_send_wr& work, LaneQueuePair& queue_pair, uint64_t number);
  Status isendSlowPath(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory,
                       void* profiler, Request** request);
  bool makeRoom(LaneQueuePair& queue_pair, uint32_t work_requests);
  Status isendNext(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory, void* profiler,
                   Request** request);
  Message* freeMessage();
  Status sendInGroup(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory, void* profiler,
                     Request** request);
  void prepare(ibv_send_wr& work, const Message& message, const ClearToSend& entry);
  void take(Message& message, uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory,
            void* profiler);
  Status closeGroup(Group& group);
  Status postSmallGroup(Group& group, uint32_t slot);
  bool canPack(const Group& group) const;
  void pack(const Message& message, uint32_t index);
  Status postPack(Group& group, uint32_t slot);
  void completeWith(Group& group, uint32_t work_requests);
  Status post(LaneQueuePair& queue_pair, ibv_send_wr* work) {
    ibv_send_wr* bad = nullptr;
    return checkPost(queue_pair, ibv_post_send(queue_pair.qp, work, &bad));
  }
  // `error`: what ibv_post_send has returned.
  Status checkPost(const LaneQueuePair& queue_pair, int error) {
    if (error == 0) [[likely]]
      return Status::success();
    return failPost(queue_pair, "ibv_post_send", error);
  }
  Status ask(bool anew = false);
  Status openGroup(Group& group);
  int match(Group& group, int tag) const;
  Status checkSize(std::size_t bytes, const ClearToSend& entry);
  Status postGroups();
  void plan(Group& group, uint32_t slot);
  void planLanes(Group& group, Part* parts, uint64_t bytes);
  uint8_t takeTurn(std::size_t lane);
  // These return false when the send queue has no room. They are called again later and continue there.
  Result<bool> postPart(Group& group, uint32_t slot, uint32_t part);
  Result<bool> postBytes(Group& group, uint32_t slot, uint32_t part, bool last_carries_immediate);
  Result<bool> postTail(Group& group, uint32_t slot, uint32_t part);
  Result<ibv_send_wr*> nextWorkRequest(LaneQueuePair& queue_pair);
  void finish(ibv_send_wr& work, const Group& group, uint32_t slot, uint32_t part);
  void signal(ibv_send_wr& work, LaneQueuePair& queue_pair, uint32_t slot, uint32_t part, bool last);
  Status postChain(LaneQueuePair& queue_pair);
  void startEvents(const Group& group, uint32_t slot, uint32_t part);
  void stopEvents(uint32_t slot, uint32_t part);

  // ---- Members that every small message reads, on few cache lines (connection.h says why).
  alignas(64) std::byte* ring_ = nullptr;      // clear-to-sends, written by the receiver
  LaneQueuePair* small_queue_pair_ = nullptr;  // the next small message goes to it
  Group* open_group_ = nullptr;  // a small group whose sends came in order and are not all there yet
  // next_number_: the receive that is being matched. seen_number_: the first receive whose clear-to-send has
  // not been seen.
  uint64_t next_number_ = 1;
  uint64_t seen_number_ = 1;
  // isend takes requests from messages_[0..message_mask_] in turn, and skips a request that is still in use.
  // When all of them are in use the mask grows. A small mask keeps the requests in the cache.
  uint32_t next_message_ = 0;
  uint32_t message_mask_ = 15;
  // small_bytes_: messages up to this size need not be signalled; 0: none. small_now_: equal to small_bytes_
  // while all earlier messages are posted, otherwise 0.
  std::size_t small_bytes_ = 0;
  std::size_t small_now_ = 0;
  // The size limit of isend's fast path: small_now_ if one queue pair takes all small messages, otherwise 0.
  std::size_t fast_path_bytes_ = 0;
  uint32_t entry_bytes_ = sizeof(ClearToSend);
  BatchLength batch_;
  bool small_turns_ = false;  // several queue pairs take small messages
  ibv_send_wr small_work_ = {};
  ibv_sge small_segment_ = {};

  // ---- the rest
  Record* records_ = nullptr;     // source of the records, if they are not inline
  std::byte* notices_ = nullptr;  // iWARP: buffers of the receives for clear-to-send
  uint32_t record_stride_ = 1;    // records of a slot: one; on iWARP one for each lane
  // A segment larger than this sends its immediate in a work request of its own.
  uint64_t adaptive_routing_bytes_ = UINT64_MAX;
  bool even_ = false;  // RAILWISE_SPLIT=even
  // Messages up to this size are not cut into segments. Those larger than small_bytes_ are signalled.
  std::size_t whole_bytes_ = 0;
  std::array<ibv_send_wr, kMaxReceives> group_chain_ = {};  // the prepared writes of a small group
  std::array<ibv_sge, kMaxReceives> group_segments_ = {};
  Pack pack_ = {};                     // the bytes of a packed group
  std::size_t max_message_bytes_ = 0;  // the limit of the device
  // What both ends have agreed on about the next epoch so far.
  struct NextEpoch {
    bool isAnswered(uint64_t epoch) const { return settle != nullptr && settle->epoch == epoch; }
    // Begins again for a later epoch, because the epoch agreed on is lost.
    void restart() {
      messages_reconciled = false;
      proposal.reset();
      accepted.reset();
    }

    std::unique_ptr<SettleFrame> settle;  // the receiver's report of what has arrived
    bool messages_reconciled = false;     // messages_ and groups_ are reconciled with `settle`
    uint64_t searched = 0;  // the epoch for which this end has reported that it finds no path yet
    std::unique_ptr<ProposeFrame> proposal;
    std::unique_ptr<EndInfo> accepted;  // the receiver's answer to the proposal
    Clock::time_point try_at = {};
    Clock::time_point connect_until = {};
  };
  NextEpoch& agree() {
    if (next_ == nullptr) next_ = std::make_unique<NextEpoch>();
    return *next_;
  }
  std::unique_ptr<NextEpoch> next_;  // exists only from a failure until the next epoch begins
  PathMemory paths_{std::chrono::seconds(config_.failover_timeout_s)};
  std::vector<RailPath> epoch_paths_;  // the paths of this epoch, by queue pair
  uint8_t blamed_ = kNoQueuePair;      // the queue pair whose path is already marked as failed
  bool wants_to_send_ = false;         // isend was called while there were no queue pairs
  int peer_rails_ = 0;                 // number of rails of the peer's device
  bool whole_ = false;                 // this epoch uses all rails of both devices
  // isend's fast path is closed: the epoch has less than the first one, there is no epoch, or the connection
  // has failed.
  bool fast_path_closed_ = false;
  uint32_t looks_ = 0;  // calls of isend while fast_path_closed_ was set
  Failback failback_{*this, paths_, config_.ib_subnet_prefix_len};
  WorkRequestChain chain_;
  std::unique_ptr<Part[]> parts_;  // kSlots x lanes
  struct PartEvent {
    uint32_t slot;
    uint32_t part;
    void* event;
  };
  std::vector<PartEvent> events_;  // the profiler's events of segments that are under way
  std::array<Group, kSlots> groups_;
  std::array<Message, kOutstandingSends> messages_;
};

// Fast path of isend for a small message whose clear-to-send has arrived: no call except the device's.
[[gnu::always_inline]] inline Status SendConnection::isendReady(uint64_t address, std::size_t bytes, int tag,
                                                                const MemoryHandle* memory, void* profiler,
                                                                Request** request) {
  if (open_group_ != nullptr) [[unlikely]]
    return isendNext(address, bytes, tag, memory, profiler, request);
  const ClearToSend& entry = entryOf(next_number_);
  const uint64_t stamp = __atomic_load_n(&entry.stamp, __ATOMIC_ACQUIRE);
  if (stamp != makeStamp(next_number_, 1, 0)) [[unlikely]]
    return isendSlowPath(address, bytes, tag, memory, profiler, request);
  Message& message = messages_[next_message_ & message_mask_];
  LaneQueuePair* const queue_pair = small_queue_pair_;
  const bool straight = bytes - 1 < fast_path_bytes_ && profiler == nullptr &&
                        entry.tag == static_cast<uint32_t>(tag) && bytes <= entry.bytes &&
                        message.kind == Request::Kind::kFree &&
                        queue_pair->posted < queue_pair->unsignalled_until;
  if (!straight) [[unlikely]]
    return isendSlowPath(address, bytes, tag, memory, profiler, request);
  *request = &message;
  return sendWhole(entry, address, static_cast<uint32_t>(bytes), *memory, message, *queue_pair);
}

// True if the small message that is about to be posted must be signalled (batch_length.h).
inline bool SendConnection::mustSignal(const LaneQueuePair& queue_pair) {
  if (tested_since_send_) {
    batch_.begin(!small_turns_);
    tested_since_send_ = false;
  }
  needs_slow_test_ = !batch_.add();
  return !needs_slow_test_ || queue_pair.posted >= queue_pair.unsignalled_until;
}

// Makes `work`, the work request that was counted last, signalled. Its completion covers all messages up to
// `number`.
inline void SendConnection::signalWith(ibv_send_wr& work, LaneQueuePair& queue_pair, uint64_t number) {
  work.send_flags |= IBV_SEND_SIGNALED;
  work.wr_id |= endsWorkRequests(queue_pair.cover()) | withNumber(number);
}

inline Status SendConnection::sendWhole(const ClearToSend& entry, uint64_t address, uint32_t bytes,
                                        const MemoryHandle& memory, Message& message,
                                        LaneQueuePair& queue_pair) {
  ibv_send_wr& work = small_work_;
  *work.sg_list = {address, bytes, memory.keys[queue_pair.rail].local};
  work.send_flags =
      bytes <= queue_pair.inline_bytes && memory.kind == MemoryKind::kHost ? IBV_SEND_INLINE : 0;
  work.imm_data = htonl(wholeImmediate(static_cast<uint32_t>(next_number_ % kSlots), bytes));
  work.wr.rdma.remote_addr = entry.address;
  work.wr.rdma.rkey = keyOfRail(entry, queue_pair.peer_rail);
  work.wr_id = sendWorkId(0, 0, queue_pair.index);
  const bool asks = mustSignal(queue_pair) || bytes > small_bytes_;
  ++queue_pair.posted;
  if (asks) signalWith(work, queue_pair, next_number_);
  describe(message, address, bytes, memory, queue_pair);
  advance();
  return post(queue_pair, &work);
}

// Fills in a message whose work requests are the last that were counted.
inline void SendConnection::describe(Message& message, uint64_t address, uint32_t bytes,
                                     const MemoryHandle& memory, const LaneQueuePair& queue_pair) const {
  message.address = address;
  message.memory = &memory;
  message.kind = Request::Kind::kSend;
  message.done = false;
  message.bytes = bytes;
  message.number = next_number_;
  message.position = queue_pair.posted;
  message.queue_pair = queue_pair.index;
}

// Goes on to the next receive.
inline void SendConnection::advance() {
  ++next_message_;
  next_post_ = ++next_number_;
  if (seen_number_ < next_number_) seen_number_ = next_number_;  // isend saw the clear-to-send itself
}

}  // namespace railwise::net
