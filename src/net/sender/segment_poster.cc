#include "net/sender/segment_poster.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "net/profiler.h"

namespace railwise::net {

void MessageEvents::start(const Group& group, uint32_t index, const LaneQueuePair& queue_pair,
                          const ClearToSendRing& ring) {
  const Segment& segment = group.lane_segments[index];
  uint64_t begin = 0;  // of the message
  for (uint32_t i = 0; i < group.count; ++i) {
    const Message& message = *group.messages[i];
    const uint64_t from = std::max(begin, segment.begin);
    const uint64_t to = std::min(begin + message.bytes, segment.end);
    begin += message.bytes;
    if (message.profiler == nullptr || (to <= from && (message.bytes > 0 || index > 0))) continue;
    profiler::Event event = {};
    event.kind = RAILWISE_PROFILER_SEND;
    event.device = device_;
    event.rail = queue_pair.rail;
    event.qp_number = queue_pair.qp->qp_num;
    event.opcode = IBV_WR_RDMA_WRITE;
    event.tag = static_cast<int>(ring.entry(group.number, i).tag);
    event.message = group.number;
    event.bytes = to > from ? to - from : 0;
    if (void* const started = profiler::start(message.profiler, event); started != nullptr)
      events_.push_back({group.slot(), index, started});
  }
}

void MessageEvents::stop(uint32_t slot, uint32_t segment) {
  std::erase_if(events_, [&](const SegmentEvent& event) {
    const bool ended = event.slot == slot && event.segment == segment;
    if (ended) profiler::stop(event.event);
    return ended;
  });
}

void MessageEvents::stopAll() {
  for (const SegmentEvent& event : events_) profiler::stop(event.event);
  events_.clear();
}

// Which lanes carry what.
bool SegmentPoster::cut(Group& group) {
  const uint64_t bytes = group.bytes();
  bool moved = false;
  std::vector<Lane>& lanes = link_.endpoint.lanes;
  Cut cut;
  if (lanes.size() == 1) {
    group.lane_segments[0] = {0, bytes, lanes.front().takeTurn()};
  } else {
    measures_ = measures_ || stripes_.measures();
    cut = cutOverLanes(group, bytes, lanes, link_.endpoint.loads, even_);
    moved = bytes >= kMinSegmentBytes && stripes_.noteMeasured(link_.endpoint.loads);
  }
  const bool recorded = !group.silent && (!group.alike || cut.segments > 1 || bytes >= kImmediateSizeLimit);
  group.cut(cut.segments, recorded ? cut.fastest : Group::kNoRecord);
  if (!recorded && link_.rules.has_immediates) return moved;
  for (uint32_t segment = 0; segment < std::min<uint32_t>(record_stride_, group.segments); ++segment) {
    Record& record = recordOf(group, segment);
    record.number = static_cast<uint32_t>(group.number);
    record.segments = group.segments;
    for (std::size_t i = 0; i < group.count; ++i) record.sizes[i] = group.messages[i]->bytes;
  }
  return moved;
}

SegmentPoster::Cut SegmentPoster::cutOverLanes(const Group& group, uint64_t bytes, std::span<Lane> lanes,
                                               std::span<LaneLoad> loads, bool even) {
  Segment* const segments = group.lane_segments;
  const std::size_t turn = group.number % lanes.size();
  if (bytes < kStripeBytes && !even) {
    const std::size_t lane = fastestLane(loads, bytes, turn);
    loads[lane].posted(bytes, 0);
    segments[0] = {0, bytes, lanes[lane].takeTurn()};
    return {};
  }
  const Shares shares = cutShares(loads, bytes, turn, even);
  const uint64_t now = nowNs();
  // Cuts lie on cache lines of each message: at multiples of kCutAlignment from the begin of the message.
  uint64_t begin = 0;
  uint64_t message_begin = 0;
  std::size_t message = 0;
  double best_rate = 0;
  Cut cut = {shares.count, 0};
  for (LaneLoad& load : loads) load.skipped();
  for (int i = 0; i < shares.count; ++i) {
    const Share& share = shares.share[static_cast<std::size_t>(i)];
    uint64_t end = i + 1 < shares.count ? begin + share.bytes : bytes;
    while (message + 1 < group.count && message_begin + group.messages[message]->bytes <= end)
      message_begin += group.messages[message++]->bytes;
    if (i + 1 < shares.count) end = message_begin + ((end - message_begin) & ~uint64_t{kCutAlignment - 1});
    end = std::max(end, begin);
    LaneLoad& load = loads[share.lane];
    if (load.rate() > best_rate) {
      best_rate = load.rate();
      cut.fastest = static_cast<uint8_t>(i);
    }
    load.posted(end - begin, now);
    segments[i] = {begin, end, lanes[share.lane].takeTurn()};
    begin = end;
  }
  return cut;
}

bool SegmentPoster::post(Group& group) {
  while (group.state == SlotState::kWaiting) {
    if (!postSegment(group)) return false;
    if (++group.cursor.segment == group.segments) group.finish();
  }
  return true;
}

inline bool SegmentPoster::postSegment(Group& group) {
  const uint32_t index = group.cursor.segment;
  const Segment& segment = group.lane_segments[index];
  const Posting to = {group, segment, link_.endpoint.queue_pairs[segment.queue_pair], index,
                      index == group.record_segment};
  const uint64_t bytes = segment.end - segment.begin;
  const bool tail =
      bytes == 0 || (!group.silent && (to.records || !link_.rules.has_immediates || bytes > then_immediate_));
  // No byte is left to post when a tail was postponed.
  if (!group.cursor.tail && !postBytes(to, !tail)) return false;
  group.cursor.tail = tail;
  if (tail && !postTail(to)) return false;
  group.cursor.tail = false;
  if (group.profiled) [[unlikely]]
    events_.start(group, index, to.queue_pair, ring_);
  return postChain(to.queue_pair);
}

// Posts the writes of a segment. `last_carries_immediate`: nothing follows them.
inline bool SegmentPoster::postBytes(const Posting& to, bool last_carries_immediate) {
  Group& group = to.group;
  LaneQueuePair& queue_pair = to.queue_pair;
  uint64_t begin = 0;  // of the message, all messages laid end to end
  for (uint32_t i = 0; i < group.count && group.cursor.bytes < to.segment.end; ++i) {
    const Message& message = *group.messages[i];
    const uint64_t end = std::min(begin + message.bytes, to.segment.end);
    while (group.cursor.bytes < end) {
      const std::optional<uint32_t> key = localKey(message, queue_pair);
      ibv_send_wr* const work = key.has_value() ? nextWorkRequest(queue_pair, 1) : nullptr;
      if (work == nullptr) return false;
      const uint64_t offset = group.cursor.bytes - begin;
      const auto bytes = static_cast<uint32_t>(
          std::min<uint64_t>(end - group.cursor.bytes, queue_pair.rest->max_request_bytes));
      const ClearToSend& entry = ring_.entry(group.number, i);
      work->opcode = IBV_WR_RDMA_WRITE;
      work->wr.rdma.remote_addr = entry.address + offset;
      work->wr.rdma.rkey = keyOfRail(entry, queue_pair.peer_rail);
      *work->sg_list = {message.address + offset, bytes, *key};
      work->num_sge = 1;
      group.cursor.bytes += bytes;
      queue_pair.counts().bytes += bytes;
      const bool last = last_carries_immediate && group.cursor.bytes == to.segment.end;
      if (last) finish(*work, to);
      signal(*work, to, last);
    }
    begin += message.bytes;
  }
  return true;
}

// Posts the work request behind the writes: the record, an empty write for the immediate alone, or, on iWARP,
// a send and the read that shows that it has arrived.
inline bool SegmentPoster::postTail(const Posting& to) {
  const Group& group = to.group;
  LaneQueuePair& queue_pair = to.queue_pair;
  const bool alone = link_.rules.completion_means_arrival;
  ibv_send_wr* const work = nextWorkRequest(queue_pair, alone ? 1 : 2);
  if (work == nullptr) return false;
  work->opcode = IBV_WR_RDMA_WRITE;
  work->num_sge = 0;
  work->wr.rdma.remote_addr = link_.peer_window + kRecordsAt + group.slot() * sizeof(Record);
  work->wr.rdma.rkey = queue_pair.peer_window_key;
  if (!group.silent && (to.records || !link_.rules.has_immediates)) {
    const Record& record = recordOf(group, to.index);
    const uint32_t bytes = net::recordBytes(group.count);
    *work->sg_list = {reinterpret_cast<uint64_t>(&record), bytes, queue_pair.window_key};
    work->num_sge = 1;
    queue_pair.counts().control_extra += bytes;
    if (bytes <= queue_pair.inline_bytes) work->send_flags = IBV_SEND_INLINE;
  }
  finish(*work, to);
  signal(*work, to, alone);
  if (alone) return true;
  // There is room: the send was only posted with room for both.
  ibv_send_wr* const read = nextWorkRequest(queue_pair, 1);
  if (read == nullptr) return false;
  link_.proof.makeRead(*read, link_.peer_window, queue_pair.window_key, queue_pair.peer_window_key);
  queue_pair.counts().control_extra += read->sg_list->length;
  signal(*read, to, true);
  return true;
}

// Makes `work`, the last work request of a segment, report the segment to the receiver.
inline void SegmentPoster::finish(ibv_send_wr& work, const Posting& to) {
  const Group& group = to.group;
  if (group.silent) return;
  const uint32_t slot = group.slot();
  const uint32_t value = group.record_segment == Group::kNoRecord
                             ? wholeImmediate(slot, group.messages[0]->bytes)
                             : segmentImmediate(to.records, slot, to.index, group.number);
  work.opcode = link_.rules.report;
  if (link_.rules.has_immediates) {
    work.imm_data = htonl(value);
  } else {
    recordOf(group, to.index).immediate = value;
  }
}

// A free work request at the end of the chain, or null: the send queue has no room for `room` of them.
inline ibv_send_wr* SegmentPoster::nextWorkRequest(LaneQueuePair& queue_pair, uint32_t room) {
  const bool fits = queue_pair.sendFree() >= room;
  if (!fits || chain_.full()) [[unlikely]] {
    if (!postChain(queue_pair) || !fits) return nullptr;
  }
  ++queue_pair.posted();
  return &chain_.add();
}

// The last work request of a segment is signalled, and so is a work request that fills the send queue.
inline void SegmentPoster::signal(ibv_send_wr& work, const Posting& to, bool last) {
  LaneQueuePair& queue_pair = to.queue_pair;
  work.wr_id = sendWorkId(to.group.slot(), to.index, queue_pair.index);
  // The tail of a segment has two work requests on iWARP.
  if (!last && queue_pair.sendFree() >= (link_.rules.completion_means_arrival ? 1U : 2U)) return;
  makeSignalled(work, queue_pair);
  if (!last) return;
  work.wr_id |= kLastOfSegment;
  ++queue_pair.counts().segments;
  if (times_.isDue(to.group.number)) times_.begin(work, to.group.number, to.segment.end - to.segment.begin);
}

inline bool SegmentPoster::postChain(LaneQueuePair& queue_pair) {
  return chain_.empty() ||
         chain_.post([&](ibv_send_wr* first) { return link_.post(queue_pair, first).ok(); });
}

// The local key of a message's memory through the rail of a queue pair. Memory that is not yet registered
// with a standby rail is registered now. Nothing: the queue pairs are left; what was linked goes nowhere.
inline std::optional<uint32_t> SegmentPoster::localKey(const Message& message, LaneQueuePair& queue_pair) {
  if (link_.endpoint.native) [[likely]]
    return message.memory->keys[queue_pair.rail].local();
  const Result<MemoryKeys> keys = keysOf(link_.device, link_.endpoint, *message.memory, queue_pair.rail);
  if (keys.ok()) return keys->local;
  (void)link_.lose(&queue_pair, keys.status(),
                   link_.endpoint.nameOf(queue_pair) +
                       ": memory cannot be registered: " + std::strerror(keys.status().sys_errno));
  if (!chain_.empty())
    (void)chain_.post([&](ibv_send_wr* dropped) { return queue_pair.uncount(dropped), true; });
  return std::nullopt;
}

}  // namespace railwise::net
