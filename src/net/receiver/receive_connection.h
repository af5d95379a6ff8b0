// The receiving end of a connection. It writes clear-to-sends, which tell the sender where to write, and
// learns from the immediates what has arrived. Threads: see connection.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "net/connection/connection.h"
#include "net/paths/answerer.h"
#include "net/receiver/clear_to_send_writer.h"
#include "net/receiver/flusher.h"
#include "net/receiver/posted_receives.h"
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
  // irecv for several buffers, 2 to kMaxReceives. `buffer_at`: a function (index, ReceiveBuffer*) that fills
  // in a buffer and returns a Status. It may be called twice for a buffer. An error ends irecvGroup().
  template <typename BufferAt>
  Status irecvGroup(uint32_t count, BufferAt buffer_at, Request** request);
  // Makes received data visible to a GPU that reads `address`: reads it through each rail that carried data
  // of that receive. *request null: no flush is needed (NCCL_GDR_FLUSH_DISABLE).
  Status iflush(uint64_t address, const MemoryHandle& memory, Request** request);
  Status testSlowPath(Request& request, bool* done, int* sizes) override;

 private:
  ReceiveConnection(const Device& device, const ConnectionOptions& options, const EndInfo& request);

  void handleCompletions(const ibv_wc* completions, int count) noexcept override;

  bool testGroup(Request& receive, int* sizes) override;

  // What the link asks (paths/link_user.h): here, receive_connection.cc, and receiver_recovery.cc.
  QueuePairNeeds needs() const override;
  int mostRails() const override { return net::mostRails(clear_to_sends_.entryBytes()); }
  Result<Window> makeWindow(bool registers) override;
  int postFirstReceives(std::size_t index) override { return posted_receives_.postFirst(queuePair(index)); }
  void onPaired() override;
  bool takeRails() override;
  void onLost() noexcept override { fast_path_ = FastReceive::kClosed; }
  Status poll() override;
  void onFenced() override;
  Words words() const override { return receives_.words(arrivedUpTo(), numbers().next); }
  bool isOpen() override { return receives_.isOpen(); }
  Status onBegun() override;
  bool onNews(uint64_t number) override { return number > arrivedUpTo() + 1; }
  UnderWay underWay() const override { return receives_.underWay(arrivedUpTo(), numbers().next); }
  uint64_t largestUnderWay() const override { return receives_.largestUnderWay(); }

  // Which receives of one buffer take the fast path. Clear-to-sends have a key for each rail.
  enum class FastReceive : uint8_t { kClosed, kOneKey, kMoreKeys };
  FastReceive fastReceive() const;
  template <FastReceive kPath>
  [[gnu::always_inline]] bool takesFastPath(std::span<const ReceiveBuffer> buffers, bool silent,
                                            const Receive& made) const;
  template <FastReceive kPath>
  [[gnu::always_inline]] Status irecvFast(const ReceiveBuffer& buffer, Receive& made, Request** request);

  template <typename BufferAt>
  Status irecvGroupSlowPath(uint32_t count, BufferAt buffer_at, Request** request);

  // Clear-to-sends (receiver/irecv.cc).
  Status irecvMoreKeys(std::span<const ReceiveBuffer> buffers, bool silent, Request** request);
  Status irecvSlowPath(std::span<const ReceiveBuffer> buffers, bool silent, Request** request);
  bool blocked() const;
  void stage(Receive& receive, std::span<const ReceiveBuffer> buffers);
  // Stages the keys of this epoch's rails. False: memory cannot be registered with one of them.
  bool stageKeys(const Receive& receive);
  template <FastReceive kPath>
  [[gnu::always_inline]] Status postOne(uint32_t entries);
  Status postPending();

  // What arrives (receiver/arrivals.cc).
  void onCompletion(const ibv_wc& completion);
  Status onData(std::size_t queue_pair, const ibv_wc& completion);
  Status onWhole(LaneQueuePair& queue_pair, uint32_t value);
  Status onCounted(LaneQueuePair& queue_pair, uint32_t value);
  Status onPacked(LaneQueuePair& queue_pair, uint32_t value);
  Status onSegment(LaneQueuePair& queue_pair, uint32_t value, const Record* record, uint32_t record_bytes);
  void complete(Receive& receive);
  // Writes the sizes of a completed receive to `sizes` (may be null).
  void finish(const Receive& receive, int* sizes);

  // ---- Members that every receive of one buffer reads, on few cache lines (connection.h says why).
  alignas(64) FastReceive fast_path_ = FastReceive::kClosed;
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

template <ReceiveConnection::FastReceive kPath>
inline bool ReceiveConnection::takesFastPath(std::span<const ReceiveBuffer> buffers, bool silent,
                                             const Receive& made) const {
  return buffers.size() == 1 && fast_path_ == kPath && !(silent && may_be_silent_) &&
         buffers[0].profiler == nullptr && made.kind == Request::Kind::kFree &&
         numbers().next <= matched_ + kSlots;
}

// One buffer, on one rail.
[[gnu::always_inline]] inline Status ReceiveConnection::irecv(std::span<const ReceiveBuffer> buffers,
                                                              bool silent, Request** request) {
  if (buffers.size() > 1) {
    const auto buffer_at = [&](std::size_t i, ReceiveBuffer* buffer) {
      *buffer = buffers[i];
      return Status::success();
    };
    return irecvGroup(static_cast<uint32_t>(buffers.size()), buffer_at, request);
  }
  Receive& made = receives_.of(numbers().next);
  if (!takesFastPath<FastReceive::kOneKey>(buffers, silent, made)) [[unlikely]]
    return fast_path_ == FastReceive::kMoreKeys ? irecvMoreKeys(buffers, silent, request)
                                                : irecvSlowPath(buffers, silent, request);
  return irecvFast<FastReceive::kOneKey>(buffers[0], made, request);
}

template <ReceiveConnection::FastReceive kPath>
inline Status ReceiveConnection::irecvFast(const ReceiveBuffer& buffer, Receive& made, Request** request) {
  const uint32_t room = buffer.room();
  clear_to_sends_.stageOne<kPath == FastReceive::kMoreKeys>(numbers().next, buffer, room,
                                                            link_.endpoint.rails.size());
  made.open(numbers().next, 1, room);
  made.addresses[0] = buffer.address;
  *request = &made;
  ++numbers().next;
  return postOne<kPath>(1);
}

// Several buffers on one rail, none of them with a profiler. All is done in one pass over NCCL's arrays.
template <typename BufferAt>
[[gnu::always_inline]] inline Status ReceiveConnection::irecvGroup(uint32_t count, BufferAt buffer_at,
                                                                   Request** request) {
  const uint64_t number = numbers().next;
  Receive& made = receives_.of(number);
  const bool fast =
      fast_path_ == FastReceive::kOneKey && made.kind == Request::Kind::kFree && number <= matched_ + kSlots;
  if (!fast) [[unlikely]]
    return irecvGroupSlowPath(count, buffer_at, request);
  uint32_t least_room = UINT32_MAX;
  bool host = true;
  ClearToSend* const entries = clear_to_sends_.entriesOf(number);
  for (std::size_t i = 0; i < count; ++i) {
    ReceiveBuffer buffer;
    RAILWISE_TRY(buffer_at(i, &buffer));
    if (buffer.profiler != nullptr) [[unlikely]]
      return irecvGroupSlowPath(count, buffer_at, request);
    const uint32_t room = made.addBuffer(i, buffer);
    clear_to_sends_.stageInGroup(entries[i], number, i, buffer, room);
    least_room = std::min(least_room, room);
    host = host && buffer.isHost();
  }
  const uint64_t stamp = makeStamp(number, static_cast<int>(count), host ? kStampHost : 0);
  for (std::size_t i = 0; i < count; ++i) entries[i].stamp = stamp;
  made.host = host;
  made.open(number, count, least_room);
  *request = &made;
  ++numbers().next;
  return postOne<FastReceive::kOneKey>(count);
}

template <typename BufferAt>
[[gnu::noinline]] Status ReceiveConnection::irecvGroupSlowPath(uint32_t count, BufferAt buffer_at,
                                                               Request** request) {
  std::array<ReceiveBuffer, kMaxReceives> buffers;
  for (std::size_t i = 0; i < count; ++i) RAILWISE_TRY(buffer_at(i, &buffers[i]));
  return irecvSlowPath({buffers.data(), count}, false, request);
}

// Posts the last receive's clear-to-send, of so many entries, unless earlier ones are not posted yet. Not
// iWARP.
template <ReceiveConnection::FastReceive kPath>
inline Status ReceiveConnection::postOne(uint32_t entries) {
  LaneQueuePair& queue_pair = queuePair(reply_queue_pair_);
  if (numbers().posted + 1 != numbers().next || queue_pair.sendFree() == 0) [[unlikely]]
    return postPending();
  ibv_sge sge;
  ibv_send_wr work;
  clear_to_sends_.fillOne(work, sge, queue_pair, link_.peer_window, numbers().posted++,
                          kPath == FastReceive::kOneKey ? 1 : kMaxRails, entries);
  // The call orders the stores of the clear-to-send before the doorbell.
  return link_.post(queue_pair, &work);
}

}  // namespace railwise::net
