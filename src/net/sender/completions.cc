// What comes back to the sender: completions, and on iWARP clear-to-sends. Part of the hot path
// (sender/datapath.cc).
#include <algorithm>
#include <cstring>

#include "net/profiler.h"
#include "net/sender/send_connection.h"
#include "net/sender/send_work_id.h"

namespace railwise::net {

// A request that has completed is reported even if the connection has failed since.
inline Status SendConnection::progress(const Request& request, bool* done) {
  const Status drained = drain();
  *done = request.complete();
  return *done ? Status::success() : wait(drained);
}

Status SendConnection::testSlowPath(Request& request, bool* done, int* sizes) {
  RAILWISE_TRY(progress(request, done));
  if (!*done) return Status::success();
  if (sizes != nullptr) sizes[0] = static_cast<int>(request.bytes);
  free(request);
  return Status::success();
}

void SendConnection::handleCompletions(const ibv_wc* completions, int count) noexcept {
  handleEach(completions, count, [this](const ibv_wc& completion) { return onCompletion(completion).ok(); });
}

uint64_t SendConnection::largestUnderWay() const {
  uint64_t largest = 0;
  for (const Group& group : groups_) {
    if (group.underWay()) largest = std::max(largest, group.cursor.bytes);
  }
  for (const Message& message : messages_) {
    if (message.kind == Request::Kind::kSend && !message.complete())
      largest = std::max<uint64_t>(largest, message.bytes);
  }
  return largest;
}

// Something is not complete: does what remains to be done for it.
Status SendConnection::wait(Status drained) {
  RAILWISE_TRY(drained);
  RAILWISE_TRY(link_.failure);
  if (nextPost() != numbers().next) [[unlikely]] {
    RAILWISE_TRY(lookForClearToSend());  // after a failover earlier receives are seen once more
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
  const auto measurable = [](const LaneLoad& load) { return load.measurable(); };
  if (link_.endpoint.lanes.size() > 1 &&
      std::any_of(link_.endpoint.loads.begin(), link_.endpoint.loads.end(), measurable)) {
    const uint64_t now = nowNs();
    for (LaneLoad& load : link_.endpoint.loads) load.measure(now);
  }
  return Status::success();
}

Status SendConnection::onFailedCompletion(LaneQueuePair& queue_pair, const ibv_wc& completion) {
  const bool notice = (completion.wr_id & kReceiveWork) != 0;
  const char* const operation = notice ? "a receive" : "a send";
  if (!link_.running() && link_.failure.ok()) return Status::success();  // it is lost already
  // The receiver had received everything and closed before its device acknowledged the last work request.
  if (link_.peerHasEnded() && arrivedUpTo() + 1 == nextPost()) return Status::success();
  return link_.loseCompletion(queue_pair, completion, operation);
}

Status SendConnection::onCompletion(const ibv_wc& completion) {
  const std::size_t index = workQueuePair(completion.wr_id);
  LaneQueuePair& queue_pair = queuePair(index);
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]]
    return onFailedCompletion(queue_pair, completion);
  if ((completion.wr_id & (kReceiveWork | kSampled)) != 0) [[unlikely]] {
    if ((completion.wr_id & kReceiveWork) != 0)
      return onClearToSend(index, workBuffer(completion.wr_id), completion.byte_len);
    endSample();
  }
  queue_pair.retire(workRequestsEnded(completion.wr_id));
  if ((completion.wr_id & kLastOfSegment) == 0) return Status::success();
  const std::size_t slot = workSlot(completion.wr_id);
  Group& group = groups_.at(slot);
  if (link_.endpoint.lanes.size() > 1) {
    const Segment& segment = groups_.segmentsOf(slot)[workSegment(completion.wr_id)];
    link_.endpoint.loads[queue_pair.rest->lane].completed(segment.end - segment.begin);
  }
  if (group.profiled) [[unlikely]]
    stopEvents(static_cast<uint32_t>(slot), workSegment(completion.wr_id));
  ++group.segments_done;
  return Status::success();
}

// ---- the record

UnderWay SendConnection::underWay() const {
  const record::ConnectionNumbers& its = numbers();
  // Over one queue pair all is complete that was sent before what NCCL knows to be complete, unless a failure
  // has changed the order.
  if (its.complete + 1 >= its.next && link_.endpoint.oneQueuePair() && link_.epoch() == 1) return {};
  UnderWay found;
  for (uint32_t i = 0; i <= turn_.mask; ++i) {
    const Message& message = messages_[i];
    // NCCL has not sent all of `next`.
    if (message.kind != Request::Kind::kSend || message.complete() || message.number >= its.next) continue;
    if (found.oldest != 0 && message.number > found.oldest) continue;
    if (message.number != found.oldest) found = {message.number, 0};
    found.bytes += message.bytes;
  }
  return found;
}

void SendConnection::beginSample(ibv_send_wr& work, uint64_t number, uint64_t bytes) {
  work.wr_id |= kSampled;
  sampled_ = number;
  sampled_bytes_ = bytes;
  sampled_since_ns_ = nowNs();
  sample_at_ = UINT64_MAX;
}

void SendConnection::endSample() {
  sample_at_ = sampled_ + record::kSample;
  const uint64_t took_ns = nowNs() - sampled_since_ns_;
  RoundTrips::ofProcess().note(std::chrono::nanoseconds(took_ns));
  record::count(shown().latency, took_ns);
  record::count(shown().size, sampled_bytes_);
}

// ---- NCCL's profiler, where it asks for events of a message: allocates and calls

void SendConnection::startEvents(const Group& group, uint32_t slot, uint32_t index) {
  const Segment& segment = groups_.segmentsOf(slot)[index];
  const LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[segment.queue_pair];
  uint64_t begin = 0;  // of the message
  for (std::size_t i = 0; i < group.count; ++i) {
    const Message& message = *group.messages[i];
    const uint64_t from = std::max(begin, segment.begin);
    const uint64_t to = std::min(begin + message.bytes, segment.end);
    begin += message.bytes;
    if (message.profiler == nullptr || (to <= from && (message.bytes > 0 || index > 0))) continue;
    profiler::Event event = {};
    event.kind = RAILWISE_PROFILER_SEND;
    event.device = link_.device.index();
    event.rail = queue_pair.rail;
    event.qp_number = queue_pair.qp->qp_num;
    event.opcode = IBV_WR_RDMA_WRITE;
    event.tag = static_cast<int>(ring_.entry(group.number, static_cast<uint32_t>(i)).tag);
    event.message = group.number;
    event.bytes = to > from ? to - from : 0;
    if (void* const started = profiler::start(message.profiler, event); started != nullptr)
      events_.push_back({slot, index, started});
  }
}

void SendConnection::stopEvents(uint32_t slot, uint32_t segment) {
  std::erase_if(events_, [&](const SegmentEvent& event) {
    const bool ended = event.slot == slot && event.segment == segment;
    if (ended) profiler::stop(event.event);
    return ended;
  });
}

// ---- iWARP: clear to send comes as a message

int SendConnection::tryToPostNoticeReceive(std::size_t queue_pair, uint32_t buffer) {
  ibv_sge sge = notices_.sge(queue_pair, buffer, link_.endpoint.queue_pairs[queue_pair].window_key);
  ibv_recv_wr work = {};
  work.wr_id = receiveWorkId(buffer, queue_pair);
  work.sg_list = &sge;
  work.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(link_.endpoint.queue_pairs[queue_pair].qp, &work, &bad);
}

Status SendConnection::postNoticeReceive(std::size_t queue_pair, uint32_t buffer) {
  const int error = tryToPostNoticeReceive(queue_pair, buffer);
  return error == 0 ? Status::success()
                    : link_.failPost(link_.endpoint.queue_pairs[queue_pair], "ibv_post_recv", error);
}

Status SendConnection::onClearToSend(std::size_t queue_pair, uint32_t buffer, uint32_t bytes) {
  const std::byte* const from = notices_.at(queue_pair, buffer);
  const uint32_t entry_bytes = ring_.entryBytes();
  const uint32_t count = bytes / entry_bytes;
  uint64_t stamp = 0;
  std::memcpy(&stamp, from + entry_bytes - sizeof stamp, sizeof stamp);
  const uint64_t receive = stampNumber(stamp);
  // After a failure the clear-to-sends of what is to be sent again come once more.
  if (count < 1 || count > uint32_t{kMaxReceives} || bytes % entry_bytes != 0 || receive < nextPost() ||
      receive >= nextPost() + kSlots) {
    return link_.fail({Code::kRemote, 0}, "a clear-to-send of " + std::to_string(bytes) +
                                              " bytes for receive " + std::to_string(receive) +
                                              ", which is not expected");
  }
  ring_.put(receive, from, count);
  return postNoticeReceive(queue_pair, buffer);
}

}  // namespace railwise::net
