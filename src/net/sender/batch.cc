// Groups of small messages of one size (SendPath::kBatch and kPacked): a write for each message, or one write
// for all of them. Part of the hot path (sender/datapath.cc).
#include <arpa/inet.h>

#include "net/sender/send_connection.h"
#include "net/sender/send_work_id.h"

namespace railwise::net {

// Fills in the write of one message.
inline void SendConnection::prepare(ibv_send_wr& work, const Message& message, const ClearToSend& entry) {
  const LaneQueuePair& queue_pair = *fast_.queue_pair;
  *work.sg_list = {message.address, message.bytes, message.memory->keys[queue_pair.rail].local()};
  const bool inlined = message.bytes <= queue_pair.inline_bytes && message.memory->kind == MemoryKind::kHost;
  work.send_flags = inlined ? IBV_SEND_INLINE : 0;
  work.wr.rdma.remote_addr = entry.address;
  work.wr.rdma.rkey = keyOfRail(entry, queue_pair.peer_rail);
}

// Copies one message into the pack. The receiver copies it once more; both copies cost less than a write.
inline void SendConnection::pack(const Message& message, uint32_t index) {
  copyShort(fast_.pack.bytes + std::size_t{index} * message.bytes,
            reinterpret_cast<const void*>(message.address),  // NOLINT(performance-no-int-to-ptr)
            message.bytes);
}

// Decides with the first message which path the group takes, and prepares message `index`. A later message
// that does not fit the path leaves it: the group then goes in segments.
void SendConnection::addToBatch(Group& group, uint32_t index, const ClearToSend& entry) {
  Message& message = *group.messages[index];
  const bool host = message.memory != nullptr && message.memory->kind == MemoryKind::kHost;
  if (group.matched == 0) {
    const bool may = fast_.open() && !group.silent && !group.profiled;
    group.form =
        may ? limits_.pathOfGroup(message.bytes, group.count, host && stampHost(ring_.stamp(group.number)))
            : SendPath::kSegments;
  } else if (!fast_.open() || !group.alike || group.profiled || (group.form == SendPath::kPacked && !host)) {
    group.form = SendPath::kSegments;
  }
  if (!group.small()) return;
  group.form == SendPath::kPacked ? pack(message, index) : prepare(fast_.batch[index], message, entry);
}

// The next send of an open group, if it comes in order and is as large as the others.
Status SendConnection::isendNext(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory,
                                 void* profiler, Request** request) {
  Group& group = *fast_.open_group;
  const uint32_t index = group.matched;
  const ClearToSend& entry = ring_.entry(group.number, index);
  Message& message = turn_.peek(messages_);
  const bool next = entry.tag == static_cast<uint32_t>(tag) && bytes == group.each && bytes <= entry.bytes &&
                    profiler == nullptr && message.kind == Request::Kind::kFree && link_.failure.ok();
  if (!next || (group.form == SendPath::kPacked && memory->kind != MemoryKind::kHost)) [[unlikely]] {
    fast_.open_group = nullptr;
    return isendSlowPath(address, bytes, tag, memory, profiler, request);
  }
  take(message, address, bytes, memory, nullptr);
  message.number = group.number;
  group.messages[index] = &message;
  *request = &message;
  if (group.form == SendPath::kPacked) {
    pack(message, index);
  } else {
    prepare(fast_.batch[index], message, entry);
  }
  return ++group.matched < group.count ? Status::success() : closeGroup(group);
}

// The group goes in `work_requests` work requests.
inline void SendConnection::completeWith(Group& group, uint32_t work_requests) {
  LaneQueuePair& queue_pair = *fast_.queue_pair;
  queue_pair.posted() += work_requests;
  queue_pair.counts().bytes += uint64_t{group.each} * group.count;
  group.postWith(queue_pair);
  nextPost() = numbers().next;
}

// A write for each message. The last one has the immediate.
Status SendConnection::postBatch(Group& group, uint32_t slot) {
  LaneQueuePair& queue_pair = *fast_.queue_pair;
  const bool asks = mustSignal(queue_pair);
  completeWith(group, group.count);
  for (uint32_t i = 0; i < group.count; ++i) fast_.batch[i].wr_id = sendWorkId(slot, 0, queue_pair.index);
  ibv_send_wr& last = fast_.batch[group.count - 1U];
  last.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  last.imm_data = htonl(wholeImmediate(slot, group.each));
  if (asks || queue_pair.posted() > queue_pair.unsignalled_until) signalWith(last, queue_pair);
  const Status result = WorkRequestChain::postUpTo(
      queue_pair.qp, fast_.batch.data(), last, [&](int error, const ibv_send_wr* refused) {
        return error == 0 ? Status::success() : link_.failPost(queue_pair, "ibv_post_send", error, refused);
      });
  last.opcode = IBV_WR_RDMA_WRITE;
  return result;
}

// One write of the whole group, into the receiver's window.
Status SendConnection::postPack(Group& group, uint32_t slot) {
  LaneQueuePair& queue_pair = *fast_.queue_pair;
  const bool asks = mustSignal(queue_pair);
  completeWith(group, 1);
  ibv_send_wr& work = fast_.work;
  work.wr_id = sendWorkId(0, 0, queue_pair.index);
  *work.sg_list = {reinterpret_cast<uint64_t>(fast_.pack.bytes), group.each * group.count, 0};
  work.send_flags = IBV_SEND_INLINE;
  work.imm_data = htonl(packedImmediate(slot, group.each));
  work.wr.rdma.remote_addr = link_.peer_window + kPacksAt + slot * sizeof(Pack);
  work.wr.rdma.rkey = queue_pair.peer_window_key;
  if (asks) signalWith(work, queue_pair);
  return link_.post(queue_pair, &work);
}

}  // namespace railwise::net
