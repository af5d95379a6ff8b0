// Messages that go in segments (SendPath::kSegments): large ones, groups of different sizes, and everything
// that is spread over lanes or goes by iWARP. There is one segment for each lane, and each is signalled. Part
// of the hot path (sender/datapath.cc).
#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "net/sender/send_connection.h"
#include "net/sender/send_work_id.h"

namespace railwise::net {

// Posts the planned groups, in the order of the receives, as far as the send queues have room. Later messages
// wait until all of them are posted.
Status SendConnection::postGroups() {
  setFastPath(false);
  needs_slow_test_ = true;  // test() goes on with it until all is posted
  // After a failover a group waits until the receiver has written its clear-to-send once more.
  while (nextPost() != numbers().next && ring_.has(nextPost())) {
    if (!link_.running()) return Status::success();
    const auto slot = static_cast<uint32_t>(nextPost() % kSlots);
    Group& group = groups_.at(slot);
    while (group.state == SlotState::kWaiting) {
      const Result<bool> posted = postSegment(group, slot, group.cursor.segment);
      if (!posted.ok()) return posted.status();
      if (!*posted) return Status::success();
      if (++group.cursor.segment == group.segments) group.finish();
    }
    nextPost() = nextPost() + 1;
  }
  setFastPath(link_.running() && nextPost() == numbers().next);
  return Status::success();
}

// Which lanes carry what.
void SendConnection::plan(Group& group, uint32_t slot) {
  const uint64_t bytes = group.bytes();
  Segment* const segments = groups_.segmentsOf(slot);
  int count = 1;
  uint8_t fastest = 0;
  if (link_.endpoint.lanes.size() == 1) {
    segments[0] = {0, bytes, takeTurn(0)};
  } else {
    count = planLanes(group, segments, bytes, &fastest);
  }
  const bool recorded = !group.silent && (!group.alike || count > 1 || bytes >= kImmediateSizeLimit);
  group.cut(count, recorded ? fastest : Group::kNoRecord);
  if (!recorded && link_.rules.has_immediates) return;
  for (uint32_t segment = 0; segment < std::min<uint32_t>(record_stride_, group.segments); ++segment) {
    Record& record = recordOf(slot, segment);
    record.number = static_cast<uint32_t>(group.number);
    record.segments = group.segments;
    for (std::size_t i = 0; i < group.count; ++i) record.sizes[i] = group.messages[i]->bytes;
  }
}

// Returns the number of segments. `fastest` receives the segment on the fastest lane.
int SendConnection::planLanes(const Group& group, Segment* segments, uint64_t bytes, uint8_t* fastest) {
  const std::size_t turn = group.number % link_.endpoint.lanes.size();
  if (bytes < kStripeBytes && !even_) {
    const std::size_t lane = fastestLane(link_.endpoint.loads, bytes, turn);
    link_.endpoint.loads[lane].posted(bytes, 0);
    segments[0] = {0, bytes, takeTurn(lane)};
    return 1;
  }
  const Shares shares = cutShares(link_.endpoint.loads, bytes, turn, even_);
  const uint64_t now = nowNs();
  // Cuts lie on cache lines of each message: at multiples of kCutAlignment from the begin of the message.
  uint64_t begin = 0;
  uint64_t message_begin = 0;
  std::size_t message = 0;
  double best_rate = 0;
  for (LaneLoad& load : link_.endpoint.loads) load.skipped();
  for (int i = 0; i < shares.count; ++i) {
    const Share& share = shares.share[static_cast<std::size_t>(i)];
    uint64_t end = i + 1 < shares.count ? begin + share.bytes : bytes;
    while (message + 1 < group.count && message_begin + group.messages[message]->bytes <= end)
      message_begin += group.messages[message++]->bytes;
    if (i + 1 < shares.count) end = message_begin + ((end - message_begin) & ~uint64_t{kCutAlignment - 1});
    end = std::max(end, begin);
    LaneLoad& load = link_.endpoint.loads[share.lane];
    if (load.rate() > best_rate) {
      best_rate = load.rate();
      *fastest = static_cast<uint8_t>(i);
    }
    load.posted(end - begin, now);
    segments[i] = {begin, end, takeTurn(share.lane)};
    begin = end;
  }
  return shares.count;
}

uint8_t SendConnection::takeTurn(std::size_t index) {
  Lane& lane = link_.endpoint.lanes[index];
  const uint8_t turn = lane.next;
  lane.next = static_cast<uint8_t>(turn + 1 < lane.count ? turn + 1 : 0);
  return lane.queue_pairs[turn];
}

Result<bool> SendConnection::postSegment(Group& group, uint32_t slot, uint32_t index) {
  const Segment& segment = groups_.segmentsOf(slot)[index];
  const uint64_t bytes = segment.end - segment.begin;
  const bool records = index == group.record_segment;
  const bool tail =
      bytes == 0 ||
      (!group.silent && (records || !link_.rules.has_immediates || bytes > limits_.then_immediate));
  if (!group.cursor.tail) {  // no byte is left to post when a tail was postponed
    const Result<bool> posted = postBytes(group, slot, index, !tail);
    if (!posted.ok() || !*posted) return posted;
  }
  if (tail) {
    group.cursor.tail = true;
    const Result<bool> posted = postTail(group, slot, index);
    if (!posted.ok() || !*posted) return posted;
    group.cursor.tail = false;
  }
  if (group.profiled) [[unlikely]]
    startEvents(group, slot, index);
  LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[segment.queue_pair];
  RAILWISE_TRY(postChain(queue_pair));
  return true;
}

// Posts the writes of a segment. `last_carries_immediate`: nothing follows them.
Result<bool> SendConnection::postBytes(Group& group, uint32_t slot, uint32_t index,
                                       bool last_carries_immediate) {
  const Segment& segment = groups_.segmentsOf(slot)[index];
  LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[segment.queue_pair];
  uint64_t begin = 0;  // of the message, all messages laid end to end
  for (int i = 0; i < group.count && group.cursor.bytes < segment.end; ++i) {
    const Message& message = *group.messages[static_cast<std::size_t>(i)];
    const uint64_t end = std::min(begin + message.bytes, segment.end);
    while (group.cursor.bytes < end) {
      const Result<uint32_t> key = localKey(message, queue_pair);
      if (!key.ok()) {  // the queue pairs are left; what was linked goes nowhere
        chain_.clear([&](const ibv_send_wr* dropped) { queue_pair.uncount(dropped); });
        return false;
      }
      const Result<ibv_send_wr*> work = nextWorkRequest(queue_pair, 1);
      if (!work.ok()) return work.status();
      if (*work == nullptr) return false;
      const uint64_t offset = group.cursor.bytes - begin;
      const auto bytes = static_cast<uint32_t>(
          std::min<uint64_t>(end - group.cursor.bytes, queue_pair.rest->max_request_bytes));
      const ClearToSend& entry = ring_.entry(group.number, static_cast<uint32_t>(i));
      (*work)->opcode = IBV_WR_RDMA_WRITE;
      (*work)->wr.rdma.remote_addr = entry.address + offset;
      (*work)->wr.rdma.rkey = keyOfRail(entry, queue_pair.peer_rail);
      *(*work)->sg_list = {message.address + offset, bytes, *key};
      (*work)->num_sge = 1;
      group.cursor.bytes += bytes;
      queue_pair.counts().bytes += bytes;
      const bool last = last_carries_immediate && group.cursor.bytes == segment.end;
      if (last) finish(**work, group, slot, index);
      signal(**work, queue_pair, slot, index, last);
    }
    begin += message.bytes;
  }
  return true;
}

// Posts the work request behind the writes: the record, an empty write for the immediate alone, or, on iWARP,
// a send and the read that shows that it has arrived.
Result<bool> SendConnection::postTail(Group& group, uint32_t slot, uint32_t index) {
  LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[groups_.segmentsOf(slot)[index].queue_pair];
  const Result<ibv_send_wr*> next = nextWorkRequest(queue_pair, link_.rules.completion_means_arrival ? 1 : 2);
  if (!next.ok()) return next.status();
  if (*next == nullptr) return false;
  ibv_send_wr& work = **next;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.num_sge = 0;
  work.wr.rdma.remote_addr = link_.peer_window + kRecordsAt + slot * sizeof(Record);
  work.wr.rdma.rkey = queue_pair.peer_window_key;
  const bool records = index == group.record_segment;
  if (!group.silent && (records || !link_.rules.has_immediates)) {
    const Record& record = recordOf(slot, index);
    const uint32_t bytes = recordBytes(group.count);
    *work.sg_list = {reinterpret_cast<uint64_t>(&record), bytes, queue_pair.window_key};
    work.num_sge = 1;
    queue_pair.counts().control_extra += bytes;
    if (bytes <= queue_pair.inline_bytes) work.send_flags = IBV_SEND_INLINE;
  }
  finish(work, group, slot, index);
  signal(work, queue_pair, slot, index, link_.rules.completion_means_arrival);
  if (link_.rules.completion_means_arrival) return true;
  const Result<ibv_send_wr*> last = nextWorkRequest(queue_pair, 1);
  if (!last.ok()) return last.status();
  ibv_send_wr& read = **last;  // there is room: the send was only posted with room for both
  link_.proof.makeRead(read, link_.peer_window, queue_pair.window_key, queue_pair.peer_window_key);
  queue_pair.counts().control_extra += read.sg_list->length;
  signal(read, queue_pair, slot, index, true);
  return true;
}

// Makes `work`, the last work request of a segment, report the segment to the receiver.
void SendConnection::finish(ibv_send_wr& work, const Group& group, uint32_t slot, uint32_t index) {
  if (group.silent) return;
  const ImmediateForm form = group.record_segment == Group::kNoRecord ? ImmediateForm::kWhole
                             : index == group.record_segment          ? ImmediateForm::kSegmentWithRecord
                                                                      : ImmediateForm::kSegment;
  const uint32_t value = form == ImmediateForm::kWhole ? wholeImmediate(slot, group.messages[0]->bytes)
                                                       : segmentImmediate(form, slot, index, group.number);
  work.opcode = link_.rules.report;
  if (link_.rules.has_immediates) {
    work.imm_data = htonl(value);
  } else {
    recordOf(slot, index).immediate = value;
  }
}

// A free work request at the end of the chain, or null: the send queue has no room for `room` of them.
Result<ibv_send_wr*> SendConnection::nextWorkRequest(LaneQueuePair& queue_pair, uint32_t room) {
  if (queue_pair.sendFree() < room) [[unlikely]] {
    RAILWISE_TRY(postChain(queue_pair));
    RAILWISE_TRY(drain());
    if (queue_pair.sendFree() < room) return static_cast<ibv_send_wr*>(nullptr);
  }
  if (chain_.full()) RAILWISE_TRY(postChain(queue_pair));
  ++queue_pair.posted();
  return &chain_.add();
}

// The last work request of a segment is signalled, and so is a work request that fills the send queue.
void SendConnection::signal(ibv_send_wr& work, LaneQueuePair& queue_pair, uint32_t slot, uint32_t segment,
                            bool last) {
  work.wr_id = sendWorkId(slot, segment, queue_pair.index);
  // The tail of a segment has two work requests on iWARP.
  if (!last && queue_pair.sendFree() >= (link_.rules.completion_means_arrival ? 1U : 2U)) return;
  work.send_flags |= IBV_SEND_SIGNALED;
  work.wr_id |= endsWorkRequests(queue_pair.cover());
  if (!last) return;
  const uint64_t number = groups_.at(slot).number;
  work.wr_id |= kLastOfSegment;
  ++queue_pair.counts().segments;
  if (number >= sample_at_) {
    const Segment& carried = groups_.segmentsOf(slot)[segment];
    beginSample(work, number, carried.end - carried.begin);
  }
}

Status SendConnection::postChain(LaneQueuePair& queue_pair) {
  if (chain_.empty()) return Status::success();
  return chain_.post(queue_pair.qp, [&](int error, const ibv_send_wr* refused) {
    return error == 0 ? Status::success() : link_.failPost(queue_pair, "ibv_post_send", error, refused);
  });
}

}  // namespace railwise::net
