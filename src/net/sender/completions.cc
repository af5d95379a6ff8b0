// What comes back to the sender: completions, and on iWARP clear-to-sends. Part of the hot path
// (sender/datapath.cc).
#include <algorithm>

#include "net/sender/send_connection.h"

namespace railwise::net {

[[gnu::always_inline]] inline Status SendConnection::onCompletion(const ibv_wc& completion) {
  const uint64_t id = completion.wr_id;
  LaneQueuePair& queue_pair = queuePair(workQueuePair(id));
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]]
    return onFailedCompletion(queue_pair, completion);
  if ((id & (kReceiveWork | kSampled)) != 0) [[unlikely]] {
    if ((id & kReceiveWork) != 0) return clear_to_sends_.onCompletion(id, completion.byte_len);
    times_.end(shown());
  }
  queue_pair.retire(workRequestsEnded(id));
  if ((id & kStripePart) != 0) segments_.onStripePart(groups_.at(workSlot(id)), id, queue_pair);
  else if ((id & kLastOfSegment) != 0) segments_.onCompletion(groups_.at(workSlot(id)), id, queue_pair);
  return Status::success();
}

// A request that has completed is reported even if the connection has failed since.
Status SendConnection::testSlowPath(Request& request, bool* done, int* sizes) {
  const Status drained = drain();
  *done = request.complete();
  if (!*done) {
    RAILWISE_TRY(drained);
    return wait();
  }
  if (sizes != nullptr) sizes[0] = static_cast<int>(request.bytes);
  free(request);
  return Status::success();
}

void SendConnection::handleCompletions(const ibv_wc* completions, int count) noexcept {
  handleEach(completions, count, [this](const ibv_wc& completion) { (void)onCompletion(completion); });
  measureLanes();
}

// Something is not complete: does what remains to be done for it.
Status SendConnection::wait() {
  RAILWISE_TRY(link_.failure);
  if (nextPost() != numbers().next) [[unlikely]] {
    RAILWISE_TRY(clear_to_sends_.look());  // after a failover earlier receives are seen once more
    RAILWISE_TRY(postGroups());
  }
  if (batch_.isShort()) {  // it was expected to be longer
    RAILWISE_TRY(link_.prove(false));
    const auto covered = [](const LaneQueuePair& queue_pair) { return queue_pair.allCovered(); };
    if (std::all_of(link_.endpoint.queue_pairs.begin(), link_.endpoint.queue_pairs.end(), covered))
      batch_.expectNone();  // else the queue was full
  }
  needs_slow_test_ = nextPost() != numbers().next || batch_.isShort();
  return link_.idle(Waiting::kAcknowledgement);
}

Status SendConnection::drain() {
  RAILWISE_TRY(link_.poll([this](const ibv_wc& completion) { return onCompletion(completion); }));
  measureLanes();
  return Status::success();
}

Status SendConnection::onFailedCompletion(LaneQueuePair& queue_pair, const ibv_wc& completion) {
  const char* const operation = (completion.wr_id & kReceiveWork) != 0 ? "a receive" : "a send";
  if (!link_.running() && link_.failure.ok()) return Status::success();  // it is lost already
  // The receiver had received everything and closed before its device acknowledged the last work request.
  if (link_.peerHasEnded() && arrivedUpTo() + 1 == nextPost()) return Status::success();
  return link_.loseCompletion(queue_pair, completion, operation);
}

UnderWay SendConnection::underWay() const {
  const record::ConnectionNumbers& its = numbers();
  // Over one queue pair all is complete that was sent before what NCCL knows to be complete, unless a failure
  // has changed the order.
  if (its.complete + 1 >= its.next && link_.endpoint.oneQueuePair() && link_.epoch() == 1) return {};
  // NCCL has not sent all of `next`.
  return messages_.underWay(its.next);
}

}  // namespace railwise::net
