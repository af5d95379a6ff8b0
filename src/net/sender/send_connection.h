// The sending end of a connection. It finds the receiver's clear-to-send, chooses the path of a message
// (send_path.h), posts it, and sees it complete. What is not the fast path of a lone message has parts of its
// own: batch_writes.h, segment_poster.h, send_recovery.h, message_times.h, clear_to_sends.h. Threads:
// see connection.h.
#pragma once

#include <arpa/inet.h>

#include <memory>
#include <utility>

#include "net/connection/connection.h"
#include "net/paths/chooser.h"
#include "net/protocol/batch_length.h"
#include "net/protocol/clear_to_send_ring.h"
#include "net/sender/batch_writes.h"
#include "net/sender/clear_to_sends.h"
#include "net/sender/fast_path.h"
#include "net/sender/group.h"
#include "net/sender/message.h"
#include "net/sender/message_times.h"
#include "net/sender/segment_poster.h"
#include "net/sender/send_path.h"
#include "net/sender/send_recovery.h"
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
  // First half of isend(): true if there is no clear-to-send for the next message and isend has nothing else
  // to do.
  bool mustWait() {
    return stampNumber(ring_.stamp(numbers().next)) < numbers().next && link_.next_cq != nullptr &&
           !must_look_ && link_.maySkipIdle();
  }
  // Second half of isend(): every other case.
  Status isendReady(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory, void* profiler,
                    Request** request);
  Status testSlowPath(Request& request, bool* done, int* sizes) override;

 private:
  SendConnection(const Device& device, const ConnectionOptions& options, const ListenHandle& handle);

  void handleCompletions(const ibv_wc* completions, int count) noexcept override;

  // What the link asks (paths/link_user.h).
  QueuePairNeeds needs() const override;
  int mostRails() const override { return net::mostRails(ring_.entryBytes()); }
  Result<Window> makeWindow(bool registers) override;
  int postFirstReceives(std::size_t queue_pair) override { return clear_to_sends_.postFirst(queue_pair); }
  void onPaired() override;
  void onLost() noexcept override {
    fast_.open_group = nullptr;
    must_look_ = true;
    setFastPath(false);
  }
  Status poll() override { return drain(); }
  void onFenced() override;
  Status reconcile(const Words& words) override;
  bool isOpen() override { return std::exchange(wants_to_send_, false) || messages_.anyOpen(); }
  Status onBegun() override;
  bool onNews(uint64_t number) override {
    recovery_.onArrived(number, link_.hasLeft());
    return false;
  }
  UnderWay underWay() const override;
  uint64_t largestUnderWay() const override {
    return std::max(groups_.largestUnderWay(), messages_.largestOpen());
  }

  // ---- isend (datapath.cc)

  // `kSample`: the time of the message is measured, if it is signalled.
  template <bool kSample>
  Status sendWhole(const ClearToSend& entry, uint64_t address, uint32_t bytes, const MemoryHandle& memory,
                   Message& message, LaneQueuePair& queue_pair);
  Status sendThenImmediate(const ClearToSend& entry, uint64_t address, uint32_t bytes,
                           const MemoryHandle& memory, Message& message, LaneQueuePair& queue_pair);
  Status sendStriped(const ClearToSend& entry, uint64_t address, uint32_t bytes, int tag,
                     const MemoryHandle& memory, Request** request);
  bool mustSignal(const LaneQueuePair& queue_pair);
  void advance();
  Status isendSlowPath(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory,
                       void* profiler, Request** request);
  // Called by isend while must_look_ is set.
  Status lookAround();
  Status awaitClearToSend();
  bool makeRoom(LaneQueuePair& queue_pair, uint32_t work_requests);
  // Small messages may take the fast path from now on, or no longer.
  void setFastPath(bool open) {
    fast_.allow(open ? limits_.unsignalled : 0, std::min<uint64_t>(limits_.whole, limits_.then_immediate),
                segments_.stripes().largest());
  }
  void measureLanes() {
    if (segments_.measures()) [[unlikely]]
      segments_.measureLanes();
  }
  // Plans what the lanes carry of large messages, and which queue pairs take small ones: each lane as often
  // as its bandwidth says.
  void planLanes();
  // The next queue pair takes the next small message.
  void takeTurnOfSmall() { fast_.queue_pair = &queuePair(fast_.turn[numbers().next % FastPath::kTurns]); }
  Status thenNextTurn(Status posted) {
    if (fast_.takes_turns) takeTurnOfSmall();
    return posted;
  }

  // ---- groups (datapath.cc)

  Status isendFirst(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory, void* profiler,
                    Request** request);
  Status isendNext(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory, void* profiler,
                   Request** request);
  Status sendInGroup(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory, void* profiler,
                     Request** request);
  Status openGroup(Group& group);
  void take(Message& message, const Group& group, uint64_t address, std::size_t bytes,
            const MemoryHandle* memory, void* profiler);
  Status closeGroup(Group& group);
  Status postGroups();

  // ---- what comes back (completions.cc)

  Status drain();
  Status onCompletion(const ibv_wc& completion);
  [[gnu::cold, gnu::noinline]] Status onFailedCompletion(LaneQueuePair& queue_pair, const ibv_wc& completion);
  Status wait();
  // Like idle(), for a call that has not polled. On iWARP it drains the completion queues first, to see the
  // answer to a question.
  Status idleAfterDrain(Waiting waiting) {
    if (clear_to_sends_.areMessages()) RAILWISE_TRY(drain());
    return link_.idle(waiting);
  }

  // ---- Members that every small message reads, on few cache lines (connection.h says why).
  alignas(64) ClearToSendRing ring_;
  MessageTimes times_;
  MessageTurn turn_;
  BatchLength batch_;
  FastPath fast_;

  // ---- the rest
  SendLimits limits_;           // of this epoch
  bool wants_to_send_ = false;  // isend was called while there were no queue pairs
  // isend must look at the peer and the paths: this epoch uses other paths than the first one, there are no
  // queue pairs, or the connection has failed.
  bool must_look_ = false;
  uint32_t looks_ = 0;  // calls of isend while must_look_ was set
  SendMessages messages_{this};
  SendGroups groups_;
  BatchWrites batch_writes_;
  SegmentPoster segments_{link_, ring_, times_};
  ClearToSends clear_to_sends_{link_, ring_};
  SendRecovery recovery_{*this, messages_, groups_, ring_};
  Chooser chooser_;
};

// Fast path of isend for a small message whose clear-to-send has arrived: no call except the device's.
[[gnu::always_inline]] inline Status SendConnection::isendReady(uint64_t address, std::size_t bytes, int tag,
                                                                const MemoryHandle* memory, void* profiler,
                                                                Request** request) {
  if (fast_.open_group != nullptr) [[unlikely]]
    return isendNext(address, bytes, tag, memory, profiler, request);
  const ClearToSend& entry = ring_.entry(numbers().next);
  if (ring_.stamp(numbers().next) != makeStamp(numbers().next, 1, 0)) [[unlikely]]
    return isendFirst(address, bytes, tag, memory, profiler, request);
  Message& message = turn_.peek(messages_);
  LaneQueuePair* const queue_pair = fast_.queue_pair;
  const bool fast = bytes - 1 < fast_.largest && profiler == nullptr &&
                    entry.tag == static_cast<uint32_t>(tag) && bytes <= entry.bytes &&
                    message.kind == Request::Kind::kFree && !times_.isDue(numbers().next) &&
                    queue_pair->posted() < queue_pair->unsignalled_until;
  if (!fast) [[unlikely]]
    return isendSlowPath(address, bytes, tag, memory, profiler, request);
  if (bytes > fast_.bytes) [[unlikely]]
    return sendStriped(entry, address, static_cast<uint32_t>(bytes), tag, *memory, request);
  *request = &message;
  return thenNextTurn(
      sendWhole<false>(entry, address, static_cast<uint32_t>(bytes), *memory, message, *queue_pair));
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
  if (asks) makeSignalled(work, queue_pair);
  if (kSample && asks) times_.begin(work, numbers().next, bytes);
  message.begin(numbers().next, address, bytes, &memory);
  message.completeWith(queue_pair);
  advance();
  return link_.post(queue_pair, &work);
}

// Fills in a message that goes with a group.
inline void SendConnection::take(Message& message, const Group& group, uint64_t address, std::size_t bytes,
                                 const MemoryHandle* memory, void* profiler) {
  ++turn_.next;
  message.begin(group.number, address, static_cast<uint32_t>(bytes), memory);
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
