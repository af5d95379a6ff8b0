// The receiving end of a connection. It writes clear-to-sends, which tell the sender where to write, and
// learns from the immediates what has arrived. Threads: see connection.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "net/connection/connection.h"
#include "net/paths/answerer.h"
#include "net/receiver/clear_to_send_writer.h"
#include "net/receiver/flusher.h"
#include "net/receiver/posted_receives.h"
#include "net/receiver/receive.h"
#include "net/receiver/receives.h"

namespace railwise::net {

class ReceiveConnection final : public Connection {
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
  ReceiveConnection(const Device& device, const ConnectionOptions& options, const EndInfo& request);

  void handleCompletions(const ibv_wc* completions, int count) noexcept override;

  // What the link asks (paths/link_user.h): here, receive_connection.cc, and receiver_recovery.cc.
  QueuePairNeeds needs() const override;
  int mostRails() const override { return net::mostRails(clear_to_sends_.entryBytes()); }
  Result<Window> makeWindow(bool registers) override;
  int postFirstReceives(std::size_t index) override { return posted_receives_.postFirst(queuePair(index)); }
  void onPaired() override;
  bool takeRails() override;
  void onLost() noexcept override { fast_path_open_ = false; }
  Status poll() override;
  void onFenced() override;
  Words words() const override { return receives_.words(arrivedUpTo(), numbers().next); }
  bool isOpen() override { return receives_.isOpen(); }
  Status onBegun() override;
  bool onNews(uint64_t number) override { return number > arrivedUpTo() + 1; }
  UnderWay underWay() const override { return receives_.underWay(arrivedUpTo(), numbers().next); }
  uint64_t largestUnderWay() const override { return receives_.largestUnderWay(); }

  // May a receive take the fast path: has the device one rail, and is it not iWARP?
  bool hasFastPath() const { return link_.rules.has_immediates && link_.device.rails().size() == 1; }

  // Clear-to-sends (receiver/irecv.cc).
  Status irecvSlowPath(std::span<const ReceiveBuffer> buffers, bool silent, Request** request);
  bool blocked() const;
  void stage(Receive& receive, std::span<const ReceiveBuffer> buffers);
  // Stages the keys of this epoch's rails. False: memory cannot be registered with one of them.
  bool stageKeys(const Receive& receive);
  Status postOne();
  Status postPending();

  // What arrives (receiver/arrivals.cc).
  void onCompletion(const ibv_wc& completion);
  Status onData(std::size_t queue_pair, const ibv_wc& completion);
  Status onWhole(LaneQueuePair& queue_pair, uint32_t value);
  Status onPacked(LaneQueuePair& queue_pair, uint32_t value);
  Status onSegment(LaneQueuePair& queue_pair, uint32_t value, const Record* record, uint32_t record_bytes);
  void complete(Receive& receive);
  // Writes the sizes of a completed receive to `sizes` (may be null).
  void finish(const Receive& receive, int* sizes);

  // ---- Members that every receive of one buffer reads, on few cache lines (connection.h says why).
  // The fast path is open: the connection may have one, and runs on its own rail.
  alignas(64) bool fast_path_open_ = false;
  bool may_be_silent_ = false;    // silent receives are allowed: NCCL_NET_OPTIONAL_RECV_COMPLETION
  uint8_t reply_queue_pair_ = 0;  // the queue pair that brought data last; clear-to-sends go over it
  // The latest receive that is complete and not silent. The sender has matched all receives up to it, so also
  // the silent ones are over.
  uint64_t matched_ = 0;
  ClearToSendWriter clear_to_sends_;  // begins with what is read

  // ---- the rest
  const Record* records_ = nullptr;  // written by the sender
  const Pack* packs_ = nullptr;      // written by the sender
  Answerer answerer_;
  PostedReceives posted_receives_{link_.rules};
  Receives receives_{this};
  Flusher flusher_{*this};
};

// Fast path of irecv: one buffer on one rail.
[[gnu::always_inline]] inline Status ReceiveConnection::irecv(std::span<const ReceiveBuffer> buffers,
                                                              bool silent, Request** request) {
  Receive& made = receives_.of(numbers().next);
  const ReceiveBuffer& buffer = buffers[0];
  const bool fast = buffers.size() == 1 && fast_path_open_ && !(silent && may_be_silent_) &&
                    buffer.profiler == nullptr && made.kind == Request::Kind::kFree &&
                    numbers().next <= matched_ + kSlots;
  if (!fast) [[unlikely]]
    return irecvSlowPath(buffers, silent, request);
  const uint32_t room = buffer.room();
  clear_to_sends_.stageOne(numbers().next, buffer, room);
  made.open(numbers().next, 1, room);
  made.addresses[0] = buffer.address;
  *request = &made;
  ++numbers().next;
  return postOne();
}

// Posts the last receive's clear-to-send, unless earlier ones are not posted yet. One rail, not iWARP.
[[gnu::always_inline]] inline Status ReceiveConnection::postOne() {
  LaneQueuePair& queue_pair = queuePair(reply_queue_pair_);
  if (numbers().posted + 1 != numbers().next || queue_pair.sendFree() == 0) [[unlikely]]
    return postPending();
  ibv_sge sge;
  ibv_send_wr work;
  clear_to_sends_.fillOne(work, sge, queue_pair, link_.peer_window, numbers().posted++);
  // The call orders the stores of the clear-to-send before the doorbell.
  return link_.post(queue_pair, &work);
}

}  // namespace railwise::net
