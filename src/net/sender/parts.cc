// Large messages, groups of different sizes, and whatever is spread over lanes or goes by iWARP: they are cut
// into parts, one for each lane, and every part asks for a completion. Part of the hot path
// (sender/datapath.cc says what that means).
#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "net/protocol/send_work_id.h"
#include "net/sender/send_connection.h"

namespace railwise::net {

// Posts what is planned, in the order of the receives, as far as the send queues have room. What follows must
// wait until all of it is posted.
Status SendConnection::postGroups() {
  smallMayGo(false);
  needs_slow_test_ = true;  // until all is posted: test() goes on with it
  // After a failover, only what the receiver has made its clear-to-send for once more.
  while (next_post_ != next_number_ && next_post_ < seen_number_) {
    if (!running()) return Status::success();
    const auto slot = static_cast<uint32_t>(next_post_ % kSlots);
    Group& group = groups_[slot];
    while (group.parts_posted < group.parts) {
      const Result<bool> posted = postPart(group, slot, group.parts_posted);
      if (!posted.ok()) return posted.status();
      if (!*posted) return Status::success();
      ++group.parts_posted;
    }
    next_post_ = next_post_ + 1;
  }
  smallMayGo(running() && next_post_ == next_number_);
  return Status::success();
}

// Which lanes carry what.
void SendConnection::plan(Group& group, uint32_t slot) {
  uint64_t bytes = 0;
  for (int i = 0; i < group.count; ++i) bytes += group.messages[static_cast<std::size_t>(i)]->bytes;
  Part* const parts = partsOf(slot);
  group.posted = 0;
  group.tail = false;
  group.record_part = 0;
  if (endpoint_.lanes.size() == 1) {
    parts[0] = {0, bytes, takeTurn(0)};
    group.parts = 1;
  } else {
    planLanes(group, parts, bytes);
  }
  group.recorded = !group.silent && (!group.alike || group.parts > 1 || bytes >= kImmediateSizeLimit);
  if (!group.recorded && !iwarp()) return;
  for (uint32_t part = 0; part < record_stride_; ++part) {
    Record& record = records_[slot * record_stride_ + part];
    record.number = static_cast<uint32_t>(group.number);
    record.parts = group.parts;
    for (std::size_t i = 0; i < group.count; ++i) record.sizes[i] = group.messages[i]->bytes;
  }
}

void SendConnection::planLanes(Group& group, Part* parts, uint64_t bytes) {
  const std::size_t turn = group.number % endpoint_.lanes.size();
  if (bytes < kStripeBytes && !even_) {
    const std::size_t lane = fastestLane(endpoint_.loads, bytes, turn);
    endpoint_.loads[lane].posted(bytes, 0);
    parts[0] = {0, bytes, takeTurn(lane)};
    group.parts = 1;
    return;
  }
  const Shares shares = cutShares(endpoint_.loads, bytes, turn, even_);
  const uint64_t now = nowNs();
  // Cuts lie on lines of the messages, not of the whole: pieces of a message end at multiples of
  // kPieceAlignment from its begin.
  uint64_t begin = 0;
  uint64_t message_begin = 0;
  std::size_t message = 0;
  double best_rate = 0;
  for (LaneLoad& load : endpoint_.loads) load.skipped();
  for (int i = 0; i < shares.count; ++i) {
    const Share& share = shares.share[static_cast<std::size_t>(i)];
    uint64_t end = i + 1 < shares.count ? begin + share.bytes : bytes;
    while (message + 1 < group.count && message_begin + group.messages[message]->bytes <= end)
      message_begin += group.messages[message++]->bytes;
    if (i + 1 < shares.count) end = message_begin + ((end - message_begin) & ~uint64_t{kPieceAlignment - 1});
    end = std::max(end, begin);
    LaneLoad& load = endpoint_.loads[share.lane];
    if (load.rate() > best_rate) {
      best_rate = load.rate();
      group.record_part = static_cast<uint8_t>(i);
    }
    load.posted(end - begin, now);
    parts[i] = {begin, end, takeTurn(share.lane)};
    begin = end;
  }
  group.parts = static_cast<uint8_t>(shares.count);
}

uint8_t SendConnection::takeTurn(std::size_t index) {
  Lane& lane = endpoint_.lanes[index];
  const uint8_t turn = lane.next;
  lane.next = static_cast<uint8_t>(turn + 1 < lane.count ? turn + 1 : 0);
  return lane.queue_pairs[turn];
}

Result<bool> SendConnection::postPart(Group& group, uint32_t slot, uint32_t index) {
  const Part& part = partsOf(slot)[index];
  const uint64_t bytes = part.end - part.begin;
  const bool records = group.recorded && index == group.record_part;
  const bool tail = bytes == 0 || (!group.silent && (records || iwarp() || bytes > adaptive_routing_bytes_));
  if (!group.tail) {  // no byte is left to post when a tail was postponed
    const Result<bool> posted = postBytes(group, slot, index, !tail);
    if (!posted.ok() || !*posted) return posted;
  }
  if (tail) {
    group.tail = true;
    const Result<bool> posted = postTail(group, slot, index);
    if (!posted.ok() || !*posted) return posted;
    group.tail = false;
  }
  if (group.profiled) [[unlikely]]
    startEvents(group, slot, index);
  LaneQueuePair& queue_pair = endpoint_.queue_pairs[part.queue_pair];
  RAILWISE_TRY(postChain(queue_pair));
  return true;
}

// The writes of a part, piece by piece. `last_carries_immediate`: nothing follows them.
Result<bool> SendConnection::postBytes(Group& group, uint32_t slot, uint32_t index,
                                       bool last_carries_immediate) {
  const Part& part = partsOf(slot)[index];
  LaneQueuePair& queue_pair = endpoint_.queue_pairs[part.queue_pair];
  uint64_t begin = 0;  // of the message, all messages laid end to end
  for (int i = 0; i < group.count && group.posted < part.end; ++i) {
    const Message& message = *group.messages[static_cast<std::size_t>(i)];
    const uint64_t end = std::min(begin + message.bytes, part.end);
    while (group.posted < end) {
      const Result<ibv_send_wr*> work = nextWorkRequest(queue_pair);
      if (!work.ok()) return work.status();
      if (*work == nullptr) return false;
      const uint64_t offset = group.posted - begin;
      const auto piece =
          static_cast<uint32_t>(std::min<uint64_t>(end - group.posted, queue_pair.piece_bytes));
      const ClearToSend& entry = entryOf(group.number, static_cast<uint32_t>(i));
      (*work)->opcode = IBV_WR_RDMA_WRITE;
      (*work)->wr.rdma.remote_addr = entry.address + offset;
      (*work)->wr.rdma.rkey = keyOfRail(entry, queue_pair.peer_rail);
      (*work)->num_sge = 1;
      const Result<uint32_t> key = localKey(message, queue_pair);
      if (!key.ok()) {  // the queue pairs are left; what was linked goes nowhere
        chain_.clear();
        return false;
      }
      *(*work)->sg_list = {message.address + offset, piece, *key};
      group.posted += piece;
      const bool last = last_carries_immediate && group.posted == part.end;
      if (last) finish(**work, group, slot, index);
      signal(**work, queue_pair, slot, index, last);
    }
    begin += message.bytes;
  }
  return true;
}

// The request behind the writes: the record, an empty write for the immediate alone, or on iWARP a send.
Result<bool> SendConnection::postTail(Group& group, uint32_t slot, uint32_t index) {
  LaneQueuePair& queue_pair = endpoint_.queue_pairs[partsOf(slot)[index].queue_pair];
  const Result<ibv_send_wr*> next = nextWorkRequest(queue_pair);
  if (!next.ok()) return next.status();
  if (*next == nullptr) return false;
  ibv_send_wr& work = **next;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.num_sge = 0;
  work.wr.rdma.remote_addr = peer_window_ + kRecordsAt + slot * sizeof(Record);
  work.wr.rdma.rkey = queue_pair.peer_window_key;
  const bool records = group.recorded && index == group.record_part;
  if (!group.silent && (records || iwarp())) {
    const Record& record = records_[slot * record_stride_ + (iwarp() ? index : 0)];
    const uint32_t bytes = recordBytes(group.count);
    *work.sg_list = {reinterpret_cast<uint64_t>(&record), bytes, queue_pair.window_key};
    work.num_sge = 1;
    if (bytes <= queue_pair.inline_bytes) work.send_flags = IBV_SEND_INLINE;
  }
  finish(work, group, slot, index);
  signal(work, queue_pair, slot, index, true);
  return true;
}

// Makes the last request of a part tell the receiver of it.
void SendConnection::finish(ibv_send_wr& work, const Group& group, uint32_t slot, uint32_t index) {
  if (group.silent) return;
  const ImmediateForm form = !group.recorded              ? ImmediateForm::kWhole
                             : index == group.record_part ? ImmediateForm::kPartWithRecord
                                                          : ImmediateForm::kPart;
  const uint32_t value = form == ImmediateForm::kWhole ? wholeImmediate(slot, group.messages[0]->bytes)
                                                       : partImmediate(form, slot, index, group.number);
  if (iwarp()) {
    work.opcode = IBV_WR_SEND;
    records_[slot * record_stride_ + index].immediate = value;
  } else {
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    work.imm_data = htonl(value);
  }
}

// A free work request at the end of the chain, or null: the send queue is full.
Result<ibv_send_wr*> SendConnection::nextWorkRequest(LaneQueuePair& queue_pair) {
  if (queue_pair.sendFree() == 0) [[unlikely]] {
    RAILWISE_TRY(postChain(queue_pair));
    RAILWISE_TRY(drain());
    if (queue_pair.sendFree() == 0) return static_cast<ibv_send_wr*>(nullptr);
  }
  if (chain_.full()) RAILWISE_TRY(postChain(queue_pair));
  ++queue_pair.posted;
  return &chain_.add();
}

// Every part asks for one completion, with its last request; so does the request that fills the queue. On
// iWARP each request asks: siw lets TCP take an unsignalled one straight from the user's pages, also for
// repetitions after a later request has completed, and would send what the user has written there since.
void SendConnection::signal(ibv_send_wr& work, LaneQueuePair& queue_pair, uint32_t slot, uint32_t part,
                            bool last) {
  work.wr_id = sendWorkId(slot, part, queue_pair.index);
  if (!last && queue_pair.sendFree() > 0 && !iwarp()) return;
  work.send_flags |= IBV_SEND_SIGNALED;
  work.wr_id |= endsWorkRequests(queue_pair.cover());
  if (last) work.wr_id |= kLastOfPart | withNumber(groups_[slot].number);
}

Status SendConnection::postChain(LaneQueuePair& queue_pair) {
  if (chain_.empty()) return Status::success();
  return checkPost(queue_pair, chain_.post(queue_pair.qp));
}

}  // namespace railwise::net
