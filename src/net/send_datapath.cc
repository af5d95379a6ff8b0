// The hot path of the sender: from isend to the queue pairs (what comes back: send_completions.cc; what is
// large, or spread over lanes: send_parts.cc). Allocates, locks, logs and calls the kernel nowhere on the way
// of a good message; the clock is read for messages that are spread over lanes.
//
// A small message asks for no completion. That it has arrived the receiver says with the next clear-to-send;
// every so many work requests one asks after all, which keeps room in the send queue; and when test() finds
// nothing for a while, an empty write asks for all before it. That needs the device, not the receiver.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "net/postponed.h"
#include "net/send_connection.h"
#include "net/send_work_id.h"

namespace railwise::net {
namespace {

// Of unsignalled work requests on a queue pair.
constexpr uint32_t kSignalEvery = 32;

[[gnu::cold, gnu::noinline]] std::string sizeText(std::size_t bytes, std::size_t room) {
  return "a send of " + std::to_string(bytes) + " bytes does not fit " + std::to_string(room) + " bytes";
}

}  // namespace

// Takes in the clear-to-sends that have arrived as a whole, and what they say of earlier receives.
Status SendConnection::look() {
  for (;;) {
    const ClearToSend& first = entryAt(seen_place_);
    const uint64_t stamp = __atomic_load_n(&first.stamp, __ATOMIC_ACQUIRE);
    if (stampNumber(stamp) != seen_number_) return Status::success();
    const int count = stampCount(stamp);
    if (count < 1 || count > kMaxReceives || stampPlace(stamp) != seen_place_) [[unlikely]]
      return fail({Code::kRemote, 0}, "clear-to-send for " + std::to_string(count) + " receives at " +
                                          std::to_string(stampPlace(stamp)) + ", expected at " +
                                          std::to_string(seen_place_));
    for (int i = count - 1; i > 0; --i) {
      const uint32_t place = seen_place_ + static_cast<uint32_t>(i);
      if (__atomic_load_n(&entryAt(place).stamp, __ATOMIC_ACQUIRE) != stamp) return Status::success();
    }
    onArrived(seen_number_ - (static_cast<uint32_t>(seen_number_) - first.arrived));
    seen_place_ = (seen_place_ + static_cast<uint32_t>(count)) & (kRingEntries - 1);
    ++seen_number_;
    heard_ = true;
  }
}

// The next receive is not there. One that this very thread has posted may wait for more of its kind.
Status SendConnection::notReady() {
  if (iwarp()) RAILWISE_TRY(drain());  // there clear-to-send comes as a message
  Postponed::postAll();
  RAILWISE_TRY(look());
  return next_number_ == seen_number_ ? idle(Waiting::kPeer) : Status::success();
}

Status SendConnection::isend(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory,
                             void* profiler, Request** request) {
  *request = nullptr;
  if (!failure_.ok()) [[unlikely]]
    return failure_;
  if (next_number_ == seen_number_) {
    RAILWISE_TRY(look());
    if (next_number_ == seen_number_) {
      RAILWISE_TRY(notReady());
      if (next_number_ == seen_number_) return Status::success();
    }
  }
  const ClearToSend& entry = entryAt(next_place_);
  const bool alone = (entry.stamp & (kStampCountMask | kStampSilent)) == 1;
  if (alone && bytes - 1 < small_bytes_ && profiler == nullptr && next_post_ == next_number_ &&
      entry.tag == static_cast<uint32_t>(tag) && bytes <= entry.bytes) [[likely]]
    return sendSmall(entry, address, static_cast<uint32_t>(bytes), *memory, request);
  return sendInGroup(address, bytes, tag, memory, profiler, request);
}

Status SendConnection::sendSmall(const ClearToSend& entry, uint64_t address, uint32_t bytes,
                                 const MemoryHandle& memory, Request** request) {
  LaneQueuePair* const queue_pair = queuePairWithRoom(1);
  Message* const message = messages_.take();
  if (queue_pair == nullptr || message == nullptr) [[unlikely]] {
    if (message != nullptr) messages_.give(message);
    return idleAfterDrain(Waiting::kAcknowledgement);
  }
  message->connection = this;
  message->kind = Request::Kind::kSend;
  message->done = false;
  message->count = 1;
  message->bytes = bytes;
  message->number = next_number_;
  ibv_sge segment = {address, bytes, memory.keys[queue_pair->rail].local};
  ibv_send_wr work;
  work.next = nullptr;
  work.sg_list = &segment;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  work.send_flags = 0;
  work.imm_data = htonl(wholeImmediate(static_cast<uint32_t>(next_number_ % kSlots), bytes));
  work.wr.rdma.remote_addr = entry.address;
  work.wr.rdma.rkey = keyOfRail(entry, queue_pair->peer_rail);
  if (bytes <= queue_pair->inline_bytes && memory.kind == MemoryKind::kHost)
    work.send_flags = IBV_SEND_INLINE;
  --queue_pair->send_free;
  signalNowAndThen(*queue_pair, work, 1);
  message->queue_pair = static_cast<uint8_t>(queue_pair - queue_pairs_.data());
  message->position = queue_pair->posted();
  *request = message;
  next_place_ = (next_place_ + 1) & (kRingEntries - 1);
  next_post_ = ++next_number_;
  return post(*queue_pair, &work);
}

// The queue pair whose turn it is, when its send queue takes so many work requests; else null.
LaneQueuePair* SendConnection::queuePairWithRoom(uint32_t work_requests) {
  Lane& lane = lanes_.front();
  LaneQueuePair& queue_pair = queue_pairs_[lane.queue_pairs[lane.next]];
  if (queue_pair.send_free < work_requests) [[unlikely]] {
    if (!drain().ok() || queue_pair.send_free < work_requests) return nullptr;
  }
  if (lane.count > 1) lane.next = static_cast<uint8_t>(lane.next + 1 < lane.count ? lane.next + 1 : 0);
  return &queue_pair;
}

// For the last of so many work requests that ask for no completion of their own.
void SendConnection::signalNowAndThen(LaneQueuePair& queue_pair, ibv_send_wr& last, uint32_t work_requests) {
  last.wr_id = sendWorkId(0, 0, static_cast<std::size_t>(&queue_pair - queue_pairs_.data()));
  queue_pair.unsignalled += work_requests;
  unsettled_.store(true, std::memory_order_relaxed);
  if (queue_pair.unsignalled < kSignalEvery) [[likely]]
    return;
  last.send_flags |= IBV_SEND_SIGNALED;
  last.wr_id |= endsWorkRequests(queue_pair.unsignalled);
  queue_pair.unsignalled = 0;
  ++signals_;
}

Status SendConnection::post(LaneQueuePair& queue_pair, ibv_send_wr* work) {
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(queue_pair.qp, work, &bad);
  if (error == 0) [[likely]]
    return Status::success();
  return failPost(queue_pair, "ibv_post_send", error);
}

// ---- groups, and whatever is not small

// The first send for a receive.
Status SendConnection::openGroup(Group& group) {
  if (!group.free()) [[unlikely]] {  // this slot's last turn is not yet acknowledged
    RAILWISE_TRY(drain());
    if (!group.free()) return idle(Waiting::kAcknowledgement);
  }
  const uint64_t stamp = entryAt(next_place_).stamp;
  group.number = next_number_;
  group.place = next_place_;
  group.count = static_cast<uint8_t>(stampCount(stamp));
  group.matched = 0;
  group.messages.fill(nullptr);
  group.parts = group.parts_posted = group.parts_done = 0;
  group.silent = stampSilent(stamp);
  group.profiled = false;
  return Status::success();
}

// The first open entry with this tag (a tag may stand twice in a group), or -1.
int SendConnection::match(const Group& group, int tag) const {
  for (uint32_t i = 0; i < group.count; ++i) {
    if (group.messages[i] == nullptr && entryAt(group.place + i).tag == static_cast<uint32_t>(tag))
      return static_cast<int>(i);
  }
  return -1;
}

Status SendConnection::checkSize(std::size_t bytes, const ClearToSend& entry) {
  const std::size_t limit = device_.properties().max_message_bytes;
  if (bytes <= entry.bytes && bytes <= limit) [[likely]]
    return Status::success();
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
  const int index = match(group, tag);
  if (index < 0) return idleAfterDrain(Waiting::kPeer);
  RAILWISE_TRY(checkSize(bytes, entryAt(group.place + static_cast<uint32_t>(index))));
  Message* const taken = messages_.take();
  if (taken == nullptr) return idleAfterDrain(Waiting::kAcknowledgement);
  group.messages[static_cast<std::size_t>(index)] = taken;
  Message& message = *taken;
  message.connection = this;
  message.kind = Request::Kind::kSend;
  message.done = false;
  message.count = 1;
  message.bytes = static_cast<uint32_t>(bytes);
  message.address = address;
  message.memory = memory;
  message.profiler = profiler;
  message.number = message.position = UINT64_MAX;
  message.tag = tag;
  if (profiler != nullptr) [[unlikely]]
    group.profiled = true;
  *request = taken;
  if (++group.matched < group.count) return Status::success();
  next_place_ = (next_place_ + group.count) & (kRingEntries - 1);
  ++next_number_;
  if (next_post_ + 1 == next_number_ && smallGroup(group)) {
    const Result<bool> posted = postSmallGroup(group, slot);
    if (!posted.ok()) return posted.status();
    if (*posted) return Status::success();
  }
  plan(group, slot);
  return postGroups();
}

bool SendConnection::smallGroup(const Group& group) const {
  if (small_bytes_ == 0 || group.silent || group.profiled || group.count < 2) return false;
  const auto bytes = group.messages[0]->bytes;
  return bytes > 0 && uint64_t{bytes} * group.count <= small_bytes_ &&
         std::all_of(group.messages.begin() + 1, group.messages.begin() + group.count,
                     [&](const Message* message) { return message->bytes == bytes; });
}

// A write for each message, the last of them with the immediate. False: no room for all of them.
Result<bool> SendConnection::postSmallGroup(Group& group, uint32_t slot) {
  LaneQueuePair* const queue_pair = queuePairWithRoom(group.count);
  if (queue_pair == nullptr) [[unlikely]]
    return false;
  queue_pair->send_free -= group.count;
  const auto index = static_cast<uint8_t>(queue_pair - queue_pairs_.data());
  const uint64_t position = queue_pair->posted();
  for (uint32_t i = 0; i < group.count; ++i) {
    Message& message = *group.messages[i];
    const ClearToSend& entry = entryAt(group.place + i);
    ibv_send_wr& work = chain_[i];
    work.wr_id = sendWorkId(slot, 0, index);
    *work.sg_list = {message.address, message.bytes, message.memory->keys[queue_pair->rail].local};
    work.num_sge = 1;
    work.opcode = IBV_WR_RDMA_WRITE;
    work.send_flags = message.bytes <= queue_pair->inline_bytes && message.memory->kind == MemoryKind::kHost
                          ? IBV_SEND_INLINE
                          : 0;
    work.wr.rdma.remote_addr = entry.address;
    work.wr.rdma.rkey = keyOfRail(entry, queue_pair->peer_rail);
    message.number = group.number;
    message.position = position;
    message.queue_pair = index;
  }
  ibv_send_wr& last = chain_[group.count - 1U];
  last.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  last.imm_data = htonl(wholeImmediate(slot, group.messages[0]->bytes));
  signalNowAndThen(*queue_pair, last, group.count);
  next_post_ = next_number_;
  chain_length_ = group.count;
  RAILWISE_TRY(postChain(*queue_pair));
  return true;
}

}  // namespace railwise::net
