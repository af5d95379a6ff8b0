// The sending end of a connection. It finds the receiver's clear-to-send, chooses the path of a message
// (send_path.h), posts it, and sees it complete. Threads: see connection.h.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <memory>

#include "net/connection/connection.h"
#include "net/paths/chooser.h"
#include "net/protocol/batch_length.h"
#include "net/protocol/clear_to_send_ring.h"
#include "net/protocol/work_request_chain.h"
#include "net/sender/fast_path.h"
#include "net/sender/group.h"
#include "net/sender/send_path.h"
#include "net/sender/send_work_id.h"

namespace railwise::net {

class SendConnection final : public Connection {
 public:
  // Makes a connection with queue pairs for the rails of the listener that wrote `handle`.
  static Result<std::unique_ptr<SendConnection>> create(const Device& device,
                                                        const ConnectionOptions& options,
                                                        const ListenHandle& handle);
  // What the handshake needs of this end.
  Chooser& chooser() { return chooser_; }

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
    return stampNumber(ring_.stamp(numbers().next)) < numbers().next && link_.only_cq != nullptr &&
           !fast_path_closed_ && link_.maySkipIdle();
  }
  // Second half of isend(): every other case.
  Status isendReady(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory, void* profiler,
                    Request** request);
  Status testSlowPath(Request& request, bool* done, int* sizes) override;

 private:
  SendConnection(const Device& device, const ConnectionOptions& options, const ListenHandle& handle);

  // The first message whose time is measured. A job of short connections has no samples, and pays nothing for
  // them.
  static constexpr uint64_t kFirstSample = 64;

  void handleCompletions(const ibv_wc* completions, int count) noexcept override;

  // What the link asks (paths/link_user.h): send_connection.cc, and sender_recovery.cc.
  QueuePairNeeds needs() const override;
  int mostRails() const override { return net::mostRails(ring_.entryBytes()); }
  Result<Window> makeWindow(bool registers) override;
  int postFirstReceives(std::size_t queue_pair) override;
  void onPaired() override;
  void onLost() noexcept override {
    fast_.open_group = nullptr;
    fast_path_closed_ = true;
    setFastPath(false);
  }
  Status poll() override { return drain(); }
  void onFenced() override;
  Status reconcile(const Words& words) override;
  bool isOpen() override;
  Status onBegun() override;
  bool onNews(uint64_t number) override;
  UnderWay underWay() const override;
  uint64_t largestUnderWay() const override;

  // Recovery (sender/sender_recovery.cc).
  // Called by isend while fast_path_closed_ is set. Looks at the peer on every 64th call, when the bell has
  // rung, and while a path is tried. Drives the recovery if the link does not run.
  Status lookAround();
  // The receiver has reported that all receives up to `number` are complete.
  void onArrived(uint64_t number) {
    // The peer cannot report more than was sent.
    if (number > arrivedUpTo()) arrivedUpTo() = std::min(number, numbers().next - 1);
  }
  void completeArrived();
  void completeMessages(uint64_t up_to);
  Status reconcileReceive(uint64_t number, bool arrived);
  Message* messageOf(uint64_t number);
  Status failLost(uint64_t number);
  Result<uint32_t> localKey(const Message& message, const LaneQueuePair& queue_pair);

  // The time of one message in record::kSample is measured, from its post to its completion. `work`: its
  // signalled work request.
  bool sampleIsDue() const { return numbers().next >= sample_at_; }
  void beginSample(ibv_send_wr& work, uint64_t number, uint64_t bytes);
  [[gnu::cold, gnu::noinline]] void endSample();

  // Polls for completions. *done: `request` has completed.
  Status progress(const Request& request, bool* done);
  Status onCompletion(const ibv_wc& completion);

  // Data path (sender/datapath.cc).
  int tryToPostNoticeReceive(std::size_t queue_pair, uint32_t buffer);  // what ibv_post_recv returns
  Status postNoticeReceive(std::size_t queue_pair, uint32_t buffer);
  Status onClearToSend(std::size_t queue_pair, uint32_t buffer, uint32_t bytes);
  Status drain();
  Status wait(Status drained);
  // Like idle(), for a call that has not polled. On iWARP it drains the completion queues first, to see the
  // answer to a question.
  Status idleAfterDrain(Waiting waiting) {
    if (!link_.rules.has_immediates) RAILWISE_TRY(drain());
    return link_.idle(waiting);
  }
  [[gnu::cold, gnu::noinline]] Status onFailedCompletion(LaneQueuePair& queue_pair, const ibv_wc& completion);
  Status lookForClearToSend();
  Status failClearToSend(uint64_t stamp);
  Status notReady();
  // `kSample`: the time of the message is measured, if it is signalled.
  template <bool kSample>
  Status sendWhole(const ClearToSend& entry, uint64_t address, uint32_t bytes, const MemoryHandle& memory,
                   Message& message, LaneQueuePair& queue_pair);
  Status sendThenImmediate(const ClearToSend& entry, uint64_t address, uint32_t bytes,
                           const MemoryHandle& memory, Message& message, LaneQueuePair& queue_pair);
  void describe(Message& message, uint64_t address, uint32_t bytes, const MemoryHandle& memory,
                const LaneQueuePair& queue_pair) const;
  void advance();
  // Small messages may take the fast path from now on, or no longer.
  void setFastPath(bool open) { fast_.allow(open ? limits_.unsignalled : 0); }
  // The next queue pair takes the next small message.
  void takeTurnOfSmall() { fast_.queue_pair = &queuePair(takeTurn(0)); }
  Status thenNextTurn(Status posted) {
    if (fast_.takes_turns) takeTurnOfSmall();
    return posted;
  }
  bool mustSignal(const LaneQueuePair& queue_pair);
  static void signalWith(ibv_send_wr& work, LaneQueuePair& queue_pair);
  Status isendSlowPath(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory,
                       void* profiler, Request** request);
  bool makeRoom(LaneQueuePair& queue_pair, uint32_t work_requests);
  Status isendNext(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory, void* profiler,
                   Request** request);
  Status sendInGroup(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory, void* profiler,
                     Request** request);
  void prepare(ibv_send_wr& work, const Message& message, const ClearToSend& entry);
  void take(Message& message, uint64_t address, std::size_t bytes, const MemoryHandle* memory,
            void* profiler);
  Status closeGroup(Group& group);
  Status postBatch(Group& group, uint32_t slot);
  void pack(const Message& message, uint32_t index);
  void addToBatch(Group& group, uint32_t index, const ClearToSend& entry);
  Status postPack(Group& group, uint32_t slot);
  void completeWith(Group& group, uint32_t work_requests);
  Status openGroup(Group& group);
  Status checkSize(std::size_t bytes, const ClearToSend& entry);
  Status postGroups();
  void plan(Group& group, uint32_t slot);
  int planLanes(const Group& group, Segment* segments, uint64_t bytes, uint8_t* fastest);
  uint8_t takeTurn(std::size_t lane);
  // These return false when the send queue has no room. They are called again later and continue there.
  Result<bool> postSegment(Group& group, uint32_t slot, uint32_t segment);
  Result<bool> postBytes(Group& group, uint32_t slot, uint32_t segment, bool last_carries_immediate);
  Result<bool> postTail(Group& group, uint32_t slot, uint32_t segment);
  Result<ibv_send_wr*> nextWorkRequest(LaneQueuePair& queue_pair, uint32_t room);
  void finish(ibv_send_wr& work, const Group& group, uint32_t slot, uint32_t segment);
  void signal(ibv_send_wr& work, LaneQueuePair& queue_pair, uint32_t slot, uint32_t segment, bool last);
  Status postChain(LaneQueuePair& queue_pair);
  void startEvents(const Group& group, uint32_t slot, uint32_t segment);
  void stopEvents(uint32_t slot, uint32_t segment);
  Record& recordOf(uint32_t slot, uint32_t segment) const {
    return records_[slot * record_stride_ + (record_stride_ > 1 ? segment : 0)];
  }

  // ---- Members that every small message reads, on few cache lines (connection.h says why).
  alignas(64) ClearToSendRing ring_;
  uint64_t sample_at_ =
      kFirstSample;  // the next message whose time is measured; UINT64_MAX: one is being measured
  MessageTurn turn_;
  BatchLength batch_;
  FastPath fast_;

  // ---- the rest
  SendLimits limits_;           // of this epoch
  bool even_ = false;           // RAILWISE_SPLIT=even
  Record* records_ = nullptr;   // source of the records, if they are not inline
  uint32_t record_stride_ = 1;  // records of a slot: one; without immediates one for each segment
  MessageBuffers notices_;      // iWARP: buffers of the receives for clear-to-send
  bool wants_to_send_ = false;  // isend was called while there were no queue pairs
  const int peer_rails_;        // number of rails of the peer's device
  // isend's fast path is closed: this epoch uses other paths than the first one, there are no queue pairs, or
  // the connection has failed.
  bool fast_path_closed_ = false;
  uint64_t sampled_ = 0;  // the message that is being measured, its size, and when it was posted
  uint64_t sampled_bytes_ = 0;
  uint64_t sampled_since_ns_ = 0;
  uint32_t looks_ = 0;  // calls of isend while fast_path_closed_ was set
  WorkRequestChain chain_;
  struct SegmentEvent {
    uint32_t slot;
    uint32_t segment;
    void* event;
  };
  std::vector<SegmentEvent> events_;  // the profiler's events of segments that are under way
  Chooser chooser_;
  SendGroups groups_;
  std::array<Message, kOutstandingSends> messages_;
};

// Fast path of isend for a small message whose clear-to-send has arrived: no call except the device's.
[[gnu::always_inline]] inline Status SendConnection::isendReady(uint64_t address, std::size_t bytes, int tag,
                                                                const MemoryHandle* memory, void* profiler,
                                                                Request** request) {
  if (fast_.open_group != nullptr) [[unlikely]]
    return isendNext(address, bytes, tag, memory, profiler, request);
  const ClearToSend& entry = ring_.entry(numbers().next);
  if (ring_.stamp(numbers().next) != makeStamp(numbers().next, 1, 0)) [[unlikely]]
    return isendSlowPath(address, bytes, tag, memory, profiler, request);
  Message& message = turn_.peek(messages_);
  LaneQueuePair* const queue_pair = fast_.queue_pair;
  const bool fast = bytes - 1 < fast_.bytes && profiler == nullptr &&
                    entry.tag == static_cast<uint32_t>(tag) && bytes <= entry.bytes &&
                    message.kind == Request::Kind::kFree && numbers().next < sample_at_ &&
                    queue_pair->posted() < queue_pair->unsignalled_until;
  if (!fast) [[unlikely]]
    return isendSlowPath(address, bytes, tag, memory, profiler, request);
  *request = &message;
  return sendWhole<false>(entry, address, static_cast<uint32_t>(bytes), *memory, message, *queue_pair);
}

// True if the small message that is about to be posted must be signalled (batch_length.h).
inline bool SendConnection::mustSignal(const LaneQueuePair& queue_pair) {
  if (tested_since_send_) {
    batch_.begin(!fast_.takes_turns);
    tested_since_send_ = false;
  }
  needs_slow_test_ = !batch_.add();
  return !needs_slow_test_ || queue_pair.posted() >= queue_pair.unsignalled_until;
}

// Makes `work`, the work request that was counted last, signalled. Its completion covers all work requests of
// the queue pair before.
inline void SendConnection::signalWith(ibv_send_wr& work, LaneQueuePair& queue_pair) {
  work.send_flags |= IBV_SEND_SIGNALED;
  work.wr_id |= endsWorkRequests(queue_pair.cover());
}

template <bool kSample>
[[gnu::always_inline]] inline Status SendConnection::sendWhole(const ClearToSend& entry, uint64_t address,
                                                               uint32_t bytes, const MemoryHandle& memory,
                                                               Message& message, LaneQueuePair& queue_pair) {
  ibv_send_wr& work = fast_.work;
  *work.sg_list = {address, bytes, memory.keys[queue_pair.rail].local()};
  work.send_flags =
      bytes <= queue_pair.inline_bytes && memory.kind == MemoryKind::kHost ? IBV_SEND_INLINE : 0;
  work.imm_data = htonl(wholeImmediate(static_cast<uint32_t>(numbers().next % kSlots), bytes));
  work.wr.rdma.remote_addr = entry.address;
  work.wr.rdma.rkey = keyOfRail(entry, queue_pair.peer_rail);
  work.wr_id = sendWorkId(0, 0, queue_pair.index);
  const bool asks = mustSignal(queue_pair) || bytes > fast_.unsignalled_now;
  ++queue_pair.posted();
  queue_pair.counts().bytes += bytes;
  if (asks) signalWith(work, queue_pair);
  if (kSample && asks) beginSample(work, numbers().next, bytes);
  describe(message, address, bytes, memory, queue_pair);
  advance();
  return link_.post(queue_pair, &work);
}

// Fills in a message whose work requests are the last that were counted.
inline void SendConnection::describe(Message& message, uint64_t address, uint32_t bytes,
                                     const MemoryHandle& memory, const LaneQueuePair& queue_pair) const {
  message.address = address;
  message.memory = &memory;
  message.kind = Request::Kind::kSend;
  message.bytes = bytes;
  message.number = numbers().next;
  message.completeWith(queue_pair);
}

// Fills in the message of a group.
inline void SendConnection::take(Message& message, uint64_t address, std::size_t bytes,
                                 const MemoryHandle* memory, void* profiler) {
  ++turn_.next;
  message.kind = Request::Kind::kSend;
  message.bytes = static_cast<uint32_t>(bytes);
  message.address = address;
  message.memory = memory;
  message.profiler = profiler;
  message.counter = &kNever;
}

// Goes on to the next receive.
inline void SendConnection::advance() {
  ++turn_.next;
  nextPost() = ++numbers().next;
  ring_.skipTo(numbers().next);  // isend saw the clear-to-send itself
}

}  // namespace railwise::net
