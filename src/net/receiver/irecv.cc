// irecv off its fast path: several buffers or rails, what is silent or profiled, and after a failure. Each
// irecv writes its clear-to-send at once, because nobody knows how soon the sender needs it. On the path of a
// good message nothing allocates, locks, logs or calls the kernel.
#include <algorithm>
#include <array>
#include <cerrno>

#include "net/receiver/receive_connection.h"
#include "net/receiver/receives.h"

namespace railwise::net {
namespace {

// One silent receive among so many requests a completion. The completion shows that the sender has matched
// all earlier receives, so their slots are free.
constexpr uint64_t kSilentRun = 8;

// So many clear-to-sends are posted by one call.
constexpr std::size_t kClearToSendChain = 4;

}  // namespace

// Stages the clear-to-send of a receive of several buffers or on several rails.
void ReceiveConnection::stage(Receive& receive, std::span<const ReceiveBuffer> buffers) {
  uint32_t least_room = UINT32_MAX;
  bool host = true;
  bool profiled = false;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    least_room = std::min(least_room, receive.addBuffer(i, buffers[i]));
    host = host && buffers[i].isHost();
    profiled = profiled || buffers[i].profiler != nullptr;
  }
  receive.least_room = least_room;
  receive.host = host;
  receive.profiled = profiled && !receive.silent;
  const uint64_t flags = (receive.silent ? kStampSilent : 0) | (host ? kStampHost : 0);
  clear_to_sends_.stage(receive, buffers, makeStamp(receive.number, static_cast<int>(buffers.size()), flags),
                        link_.endpoint.rails.size());
}

// The fast path on several rails.
Status ReceiveConnection::irecvMoreKeys(std::span<const ReceiveBuffer> buffers, bool silent,
                                        Request** request) {
  Receive& made = receives_.of(numbers().next);
  return takesFastPath<FastReceive::kMoreKeys>(buffers, silent, made)
             ? irecvFast<FastReceive::kMoreKeys>(buffers[0], made, request)
             : irecvSlowPath(buffers, silent, request);
}

Status ReceiveConnection::irecvSlowPath(std::span<const ReceiveBuffer> buffers, bool silent,
                                        Request** request) {
  Receive& made = receives_.of(numbers().next);
  *request = nullptr;
  if (!link_.failure.ok()) return link_.failure;
  if (!link_.running() || link_.bell.raised()) RAILWISE_TRY(link_.idle(Waiting::kPeer));
  if (made.kind != Request::Kind::kFree) return Status::success();
  if (blocked()) {
    RAILWISE_TRY(poll());
    if (blocked()) return link_.idle(Waiting::kPeer);
  }
  made.open(numbers().next, static_cast<uint32_t>(buffers.size()), buffers[0].room());
  if (silent && may_be_silent_ && made.count == 1 && made.number % kSilentRun != 0) made.completeSilently();
  stage(made, buffers);
  if (made.profiled) [[unlikely]] {
    const bool there = reply_queue_pair_ < link_.endpoint.queue_pairs.size();  // not between two epochs
    startEvents(made, buffers, link_.device.index(), there ? queuePair(reply_queue_pair_).qp : nullptr);
  }
  // Without queue pairs the next epoch does this.
  const bool standby = !link_.endpoint.native && link_.hasQueuePairs();
  if (standby && !stageKeys(made)) {
    (void)link_.lose(&queuePair(reply_queue_pair_), {Code::kSystem, ENOMEM},
                     "memory cannot be registered with a standby rail");
  }
  *request = &made;
  ++numbers().next;
  return postPending();
}

// The receive must wait: for silent receives that the sender has not matched, or on iWARP for room in the
// send queue (without queue pairs the next epoch writes its clear-to-send).
bool ReceiveConnection::blocked() const {
  return numbers().next > matched_ + kSlots ||
         (!link_.rules.has_immediates && link_.running() &&
          link_.endpoint.queue_pairs[reply_queue_pair_].sendFree() == 0);
}

// Posts the clear-to-sends that are not posted yet, over the queue pair that brought data last: the sender
// gives most data to the fastest lane.
Status ReceiveConnection::postPending() {
  if (!link_.running()) [[unlikely]]  // they go with the next epoch
    return Status::success();
  LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[reply_queue_pair_];
  while (numbers().posted != numbers().next) {
    if (queue_pair.sendFree() == 0) [[unlikely]] {
      RAILWISE_TRY(poll());
      needs_slow_test_ = queue_pair.sendFree() == 0;
      if (needs_slow_test_) return Status::success();
    }
    std::array<ibv_send_wr, kClearToSendChain> works;
    std::array<ibv_sge, kClearToSendChain> sges;
    std::size_t count = 0;
    while (count < works.size() && numbers().posted != numbers().next && queue_pair.sendFree() > 0) {
      const uint64_t number = numbers().posted++;
      clear_to_sends_.fillNext(works[count], sges[count], queue_pair, link_.peer_window, number,
                               receives_.of(number).count, !link_.rules.has_immediates);
      if (count > 0) works[count - 1].next = &works[count];
      ++count;
    }
    RAILWISE_TRY(link_.post(queue_pair, works.data()));
  }
  return Status::success();
}

}  // namespace railwise::net
