// The hot path of the sender: from isend to the queue pairs (what comes back: sender/completions.cc; what is
// large, or spread over lanes: sender/parts.cc). Allocates, locks, logs and calls the kernel nowhere on the
// way of a good message; the clock is read for messages that are spread over lanes.
#include <arpa/inet.h>

#include <algorithm>

#include "net/protocol/send_work_id.h"
#include "net/sender/send_connection.h"

namespace railwise::net {
namespace {

// Is it the stamp of this receive?
bool sameTurn(uint64_t stamp, uint64_t number) {
  return (stamp ^ makeStamp(number, 0, 0)) >> kStampFlagsEnd == 0;
}

[[gnu::cold, gnu::noinline]] std::string textOfStamp(uint64_t stamp) {
  return "the clear-to-send for receive " + std::to_string(stampNumber(stamp)) +
         " makes no sense: its flags and count are " +
         std::to_string(stamp & ((1U << kStampNumberShift) - 1));
}

[[gnu::cold, gnu::noinline]] std::string sizeText(std::size_t bytes, std::size_t room) {
  return "a send of " + std::to_string(bytes) + " bytes does not fit " + std::to_string(room) + " bytes";
}

}  // namespace

// Takes in the clear-to-sends that have arrived as a whole.
Status SendConnection::lookForClearToSend() {
  uint64_t number = seen_number_;
  for (;;) {
    const uint64_t stamp = __atomic_load_n(&entryOf(number).stamp, __ATOMIC_ACQUIRE);
    const auto count = static_cast<uint32_t>(stampCount(stamp));
    if (!sameTurn(stamp, number) || count - 1 >= kMaxReceives) [[unlikely]] {
      if (stampNumber(stamp) == number) return failClearToSend(stamp);
      break;
    }
    uint32_t whole = 1;
    while (whole < count && __atomic_load_n(&entryOf(number, whole).stamp, __ATOMIC_ACQUIRE) == stamp)
      ++whole;
    if (whole < count) break;
    ++number;
  }
  if (number == seen_number_) return Status::success();
  seen_number_ = number;
  completed_since_check_ = true;
  return Status::success();
}

Status SendConnection::failClearToSend(uint64_t stamp) {
  return fail({Code::kRemote, 0}, textOfStamp(stamp));
}

// The next receive is not there.
Status SendConnection::notReady() {
  if (iwarp()) {  // there clear-to-send comes as a message
    RAILWISE_TRY(drain());
    RAILWISE_TRY(lookForClearToSend());
  }
  return next_number_ >= seen_number_ ? idle(Waiting::kPeer) : Status::success();
}

void SendConnection::takeSmallTurn() { small_queue_pair_ = &endpoint_.queue_pairs[takeTurn(0)]; }

// What is not known to go straight down.
Status SendConnection::isendSlowPath(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory,
                                     void* profiler, Request** request) {
  *request = nullptr;
  if (fast_path_closed_) [[unlikely]] {
    RAILWISE_TRY(lookAround());
    if (!running()) return Status::success();
  }
  // After a failover earlier receives are seen once more.
  if (next_number_ >= seen_number_) {
    RAILWISE_TRY(lookForClearToSend());
    if (next_number_ >= seen_number_) {
      RAILWISE_TRY(notReady());
      if (next_number_ >= seen_number_ || !running()) return Status::success();
    }
  }
  const ClearToSend& entry = entryOf(next_number_);
  const bool alone = (entry.stamp & (kStampCountMask | kStampSilent)) == 1;
  const bool whole = alone && small_now_ != 0 && bytes - 1 < whole_bytes_ && profiler == nullptr &&
                     entry.tag == static_cast<uint32_t>(tag) && bytes <= entry.bytes;
  if (!whole) return sendInGroup(address, bytes, tag, memory, profiler, request);
  LaneQueuePair& queue_pair = *small_queue_pair_;
  Message* const message = makeRoom(queue_pair, 2) ? freeMessage() : nullptr;
  if (message == nullptr) return idleAfterDrain(Waiting::kAcknowledgement);
  *request = message;
  if (bytes > adaptive_routing_bytes_)
    return thenNextTurn(
        sendApart(entry, address, static_cast<uint32_t>(bytes), *memory, *message, queue_pair));
  return thenNextTurn(sendWhole(entry, address, static_cast<uint32_t>(bytes), *memory, *message, queue_pair));
}

// The immediate in a request of its own: switches may let the packets of the first overtake each other
// (NCCL_IB_AR_THRESHOLD).
Status SendConnection::sendApart(const ClearToSend& entry, uint64_t address, uint32_t bytes,
                                 const MemoryHandle& memory, Message& message, LaneQueuePair& queue_pair) {
  ibv_sge segment = {address, bytes, memory.keys[queue_pair.rail].local};
  ibv_send_wr data = {};
  data.wr_id = sendWorkId(0, 0, queue_pair.index);
  data.sg_list = &segment;
  data.num_sge = 1;
  data.opcode = IBV_WR_RDMA_WRITE;
  data.wr.rdma.remote_addr = entry.address;
  data.wr.rdma.rkey = keyOfRail(entry, queue_pair.peer_rail);
  ibv_send_wr tail = {};
  data.next = &tail;
  tail.wr_id = data.wr_id;
  tail.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  tail.imm_data = htonl(wholeImmediate(static_cast<uint32_t>(next_number_ % kSlots), bytes));
  tail.wr.rdma = data.wr.rdma;
  queue_pair.posted += 2;
  describe(message, address, bytes, memory, queue_pair);
  signalWith(tail, queue_pair, next_number_);
  advance();
  return post(queue_pair, &data);
}

// Does the send queue take so many work requests?
bool SendConnection::makeRoom(LaneQueuePair& queue_pair, uint32_t work_requests) {
  return queue_pair.sendFree() >= work_requests || (drain().ok() && queue_pair.sendFree() >= work_requests);
}

inline void SendConnection::take(Message& message, uint64_t address, std::size_t bytes, int tag,
                                 const MemoryHandle* memory, void* profiler) {
  ++next_message_;
  message.kind = Request::Kind::kSend;
  message.done = false;
  message.bytes = static_cast<uint32_t>(bytes);
  message.address = address;
  message.memory = memory;
  message.profiler = profiler;
  message.position = UINT64_MAX;
  if (profiler != nullptr) [[unlikely]]
    message.tag = tag;
}

// A write for a message of a small group.
inline void SendConnection::prepare(ibv_send_wr& work, const Message& message, const ClearToSend& entry) {
  const LaneQueuePair& queue_pair = *small_queue_pair_;
  *work.sg_list = {message.address, message.bytes, message.memory->keys[queue_pair.rail].local};
  const bool inlined = message.bytes <= queue_pair.inline_bytes && message.memory->kind == MemoryKind::kHost;
  work.send_flags = inlined ? IBV_SEND_INLINE : 0;
  work.wr.rdma.remote_addr = entry.address;
  work.wr.rdma.rkey = keyOfRail(entry, queue_pair.peer_rail);
}

// The bytes are copied twice, which costs less than a write of their own.
bool SendConnection::canPack(const Group& group) const {
  const uint32_t bytes = group.each * group.count;
  return stampHost(entryOf(group.number).stamp) && group.count > 1 && bytes <= kPackBytes &&
         bytes <= small_queue_pair_->inline_bytes;
}

inline void SendConnection::pack(const Message& message, uint32_t index) {
  copyShort(pack_.bytes + std::size_t{index} * message.bytes, reinterpret_cast<const void*>(message.address),
            message.bytes);  // NOLINT(performance-no-int-to-ptr)
}

// The next send of a small group, when it comes in order and is as large as the others.
Status SendConnection::isendNext(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory,
                                 void* profiler, Request** request) {
  Group& group = *open_group_;
  const uint32_t index = group.matched;
  const ClearToSend& entry = entryOf(group.number, index);
  Message& message = messages_[next_message_ & message_mask_];
  const bool next = entry.tag == static_cast<uint32_t>(tag) && bytes == group.each && bytes <= entry.bytes &&
                    profiler == nullptr && message.kind == Request::Kind::kFree && failure_.ok();
  if (!next || (group.packed && memory->kind != MemoryKind::kHost)) [[unlikely]] {
    open_group_ = nullptr;
    return isendSlowPath(address, bytes, tag, memory, profiler, request);
  }
  take(message, address, bytes, tag, memory, nullptr);
  message.number = group.number;
  message.queue_pair = small_queue_pair_->index;
  group.messages[index] = &message;
  *request = &message;
  if (group.packed) {
    pack(message, index);
  } else {
    prepare(group_chain_[index], message, entry);
  }
  return ++group.matched < group.count ? Status::success() : closeGroup(group);
}

// One that is free, or null: it is the next then. Where none of those in use is, twice as many are used from
// now on.
SendConnection::Message* SendConnection::freeMessage() {
  for (;; message_mask_ = 2 * message_mask_ + 1) {
    for (uint32_t tries = 0; tries <= message_mask_; ++tries, ++next_message_) {
      Message& message = messages_[next_message_ & message_mask_];
      if (message.kind == Request::Kind::kFree) return &message;
    }
    if (message_mask_ + 1 == kOutstandingSends) return nullptr;
  }
}

// ---- groups, and whatever is not small

// The first send for a receive.
Status SendConnection::openGroup(Group& group) {
  if (!group.free()) [[unlikely]] {  // this slot's last turn is not yet acknowledged
    RAILWISE_TRY(drain());
    if (!group.free()) return idle(Waiting::kAcknowledgement);
  }
  // Once more, and for good: the peer can write there at any time.
  const uint64_t stamp = __atomic_load_n(&entryOf(next_number_).stamp, __ATOMIC_ACQUIRE);
  if (!sameTurn(stamp, next_number_) || stampCount(stamp) < 1 || stampCount(stamp) > kMaxReceives)
      [[unlikely]]
    return failClearToSend(stamp);
  group.number = next_number_;
  group.count = static_cast<uint8_t>(stampCount(stamp));
  group.matched = 0;
  group.messages.fill(nullptr);
  group.parts = group.parts_posted = group.parts_done = 0;
  group.silent = stampSilent(stamp);
  group.again = false;
  group.profiled = false;
  group.alike = group.in_order = true;
  return Status::success();
}

// The first open entry with this tag (a tag may stand twice in a group), or -1. Mostly it is the next one.
inline int SendConnection::match(Group& group, int tag) const {
  const auto fits = [&](uint32_t i) { return entryOf(group.number, i).tag == static_cast<uint32_t>(tag); };
  if (group.in_order && fits(group.matched)) [[likely]]
    return group.matched;
  group.in_order = false;
  for (uint32_t i = 0; i < group.count; ++i) {
    if (group.messages[i] == nullptr && fits(i)) return static_cast<int>(i);
  }
  return -1;
}

inline Status SendConnection::checkSize(std::size_t bytes, const ClearToSend& entry) {
  if (bytes <= entry.bytes && bytes <= max_message_bytes_) [[likely]]
    return Status::success();
  const std::size_t limit = max_message_bytes_;
  return fail({Code::kInvalidArgument, 0}, sizeText(bytes, std::min<std::size_t>(entry.bytes, limit)));
}

Status SendConnection::sendInGroup(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory,
                                   void* profiler, Request** request) {
  if (next_post_ != next_number_) [[unlikely]]
    RAILWISE_TRY(postGroups());
  const auto slot = static_cast<uint32_t>(next_number_ % kSlots);
  Group& group = groups_[slot];
  if (group.number != next_number_) {
    RAILWISE_TRY(openGroup(group));
    if (group.number != next_number_) return Status::success();
  }
  const int found = match(group, tag);
  if (found < 0) return idleAfterDrain(Waiting::kPeer);
  const auto index = static_cast<uint32_t>(found);
  const ClearToSend& entry = entryOf(group.number, index);
  RAILWISE_TRY(checkSize(bytes, entry));
  Message* const message = freeMessage();
  if (message == nullptr) return idleAfterDrain(Waiting::kAcknowledgement);
  take(*message, address, bytes, tag, memory, profiler);
  message->number = group.number;
  group.messages[index] = message;
  if (profiler != nullptr) [[unlikely]]
    group.profiled = true;
  if (group.matched == 0) group.each = message->bytes;
  group.alike = group.alike && message->bytes == group.each;
  const bool small = group.alike && !group.silent && !group.profiled && bytes - 1 < small_now_ / group.count;
  if (group.matched == 0) {
    group.small = small;
    group.packed = small && memory->kind == MemoryKind::kHost && canPack(group);
  }
  group.small = group.small && small && (!group.packed || memory->kind == MemoryKind::kHost);
  if (group.small) {
    message->queue_pair = small_queue_pair_->index;
    group.packed ? pack(*message, index) : prepare(group_chain_[index], *message, entry);
  }
  *request = message;
  if (++group.matched == group.count) return closeGroup(group);
  open_group_ = group.small && group.in_order ? &group : nullptr;
  return Status::success();
}

// All its sends are there.
[[gnu::noinline]] Status SendConnection::closeGroup(Group& group) {
  open_group_ = nullptr;
  ++next_number_;
  const auto slot = static_cast<uint32_t>(group.number % kSlots);
  if (next_post_ + 1 == next_number_ && group.small && makeRoom(*small_queue_pair_, group.count))
    return thenNextTurn(group.packed ? postPack(group, slot) : postSmallGroup(group, slot));
  for (uint32_t i = 0; i < group.count; ++i) group.messages[i]->number = UINT64_MAX;  // its parts tell
  plan(group, slot);
  return postGroups();
}

// So many work requests bring the whole group, and the last of them completes it.
inline void SendConnection::completeWith(Group& group, uint32_t work_requests) {
  LaneQueuePair& queue_pair = *small_queue_pair_;
  const uint64_t position = queue_pair.posted += work_requests;
  for (uint32_t i = 0; i < group.count; ++i) group.messages[i]->position = position;
  next_post_ = next_number_;
}

// A write for each message, the last of them with the immediate.
Status SendConnection::postSmallGroup(Group& group, uint32_t slot) {
  LaneQueuePair& queue_pair = *small_queue_pair_;
  const bool asks = mustSignal(queue_pair);
  completeWith(group, group.count);
  for (uint32_t i = 0; i < group.count; ++i) group_chain_[i].wr_id = sendWorkId(slot, 0, queue_pair.index);
  ibv_send_wr& last = group_chain_[group.count - 1U];
  last.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  last.imm_data = htonl(wholeImmediate(slot, group.each));
  if (asks || queue_pair.posted > queue_pair.unsignalled_until) signalWith(last, queue_pair, group.number);
  const Status result =
      checkPost(queue_pair, WorkRequestChain::postUpTo(queue_pair.qp, group_chain_.data(), last));
  last.opcode = IBV_WR_RDMA_WRITE;
  return result;
}

// One write for the group, into the receiver's window.
Status SendConnection::postPack(Group& group, uint32_t slot) {
  LaneQueuePair& queue_pair = *small_queue_pair_;
  const bool asks = mustSignal(queue_pair);
  completeWith(group, 1);
  ibv_send_wr& work = small_work_;
  work.wr_id = sendWorkId(0, 0, queue_pair.index);
  *work.sg_list = {reinterpret_cast<uint64_t>(pack_.bytes), group.each * group.count, 0};
  work.send_flags = IBV_SEND_INLINE;
  work.imm_data = htonl(packedImmediate(slot, group.each));
  work.wr.rdma.remote_addr = peer_window_ + kPacksAt + slot * sizeof(Pack);
  work.wr.rdma.rkey = queue_pair.peer_window_key;
  if (asks) signalWith(work, queue_pair, group.number);
  return post(queue_pair, &work);
}

}  // namespace railwise::net
