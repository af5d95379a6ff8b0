// The hot path of the sender: which clear-to-send a message takes, and which path (send_path.h). Single
// messages go from here. Small groups: batch_writes.h; segments: segment_poster.h; what comes back:
// completions.cc. On the path of a good message nothing allocates, locks, logs or calls the kernel; only
// segments that go over several lanes read the clock.
#include <arpa/inet.h>

#include <algorithm>

#include "net/sender/send_connection.h"
#include "net/sender/send_work_id.h"

namespace railwise::net {
namespace {

[[gnu::cold, gnu::noinline]] std::string sizeText(std::size_t bytes, std::size_t room) {
  return "a send of " + std::to_string(bytes) + " bytes does not fit " + std::to_string(room) + " bytes";
}

}  // namespace

// The clear-to-send for the next receive is not there.
Status SendConnection::awaitClearToSend() {
  if (clear_to_sends_.areMessages()) {
    RAILWISE_TRY(drain());
    RAILWISE_TRY(clear_to_sends_.look());
  }
  return ring_.has(numbers().next) ? Status::success() : link_.idle(Waiting::kPeer);
}

// A connection that always has something to send never waits, so isend must look for better paths: on every
// 64th call, when the bell has rung, and while a path is tried. It drives the recovery if the link does not
// run.
Status SendConnection::lookAround() {
  RAILWISE_TRY(link_.failure);
  if (!link_.running()) {
    wants_to_send_ = true;
    return link_.idle(Waiting::kPeer);
  }
  constexpr uint32_t kLookMask = 0x3f;
  return (++looks_ & kLookMask) != 0 && !link_.bell.raised() && !chooser_.triesPath()
             ? Status::success()
             : link_.step(Waiting::kAcknowledgement);
}

// The immediate has a work request of its own, because switches may let the packets of the write overtake
// each other (NCCL_IB_AR_THRESHOLD).
inline Status SendConnection::sendThenImmediate(const ClearToSend& entry, uint64_t address, uint32_t bytes,
                                                const MemoryHandle& memory, Message& message,
                                                LaneQueuePair& queue_pair) {
  ibv_send_wr& data = fast_.data;
  ibv_send_wr& tail = fast_.tail;
  fast_.sge = {address, bytes, memory.keys[queue_pair.rail].local()};
  data.wr.rdma.remote_addr = entry.address;
  data.wr.rdma.rkey = keyOfRail(entry, queue_pair.peer_rail);
  data.wr_id = tail.wr_id = sendWorkId(0, 0, queue_pair.index);
  tail.imm_data = htonl(wholeImmediate(static_cast<uint32_t>(numbers().next % kSlots), bytes));
  tail.wr.rdma = data.wr.rdma;
  queue_pair.posted() += 2;
  queue_pair.counts().bytes += bytes;
  message.begin(numbers().next, address, bytes, &memory);
  message.completeWith(queue_pair);
  makeSignalled(tail, queue_pair);
  if (times_.isDue(numbers().next)) times_.begin(tail, numbers().next, bytes);
  advance();
  return link_.post(queue_pair, &data);
}

// A large message, cut by the plan of the lanes: one write for each part, whose immediate has its size. The
// others go in segments.
[[gnu::noinline]] Status SendConnection::sendStriped(const ClearToSend& entry, uint64_t address,
                                                     uint32_t bytes, int tag, const MemoryHandle& memory,
                                                     Request** request) {
  const uint64_t number = numbers().next;
  Group& group = groups_.of(number);
  StripePlan& plan = segments_.stripes();
  const StripePlan::Row* const row =
      bytes >= plan.least() && group.mayOpen() ? plan.take(number, bytes, link_.endpoint.loads) : nullptr;
  const auto fits = [&] {
    std::size_t part = 0;
    do {
      if (queuePair(row->queue_pair[part]).sendFree() < 2) return false;
    } while (++part < row->parts);
    return true;
  };
  if (row == nullptr || !fits()) [[unlikely]]
    return isendSlowPath(address, bytes, tag, &memory, nullptr, request);
  Message& message = turn_.peek(messages_);
  *request = &message;
  message.begin(number, address, bytes, &memory);
  group.stripe(number, message, row->parts);
  needs_slow_test_ = false;
  advance();
  const bool apart = bytes > limits_.then_immediate;
  const uint64_t works = apart ? 2 : 1;
  ibv_send_wr& first = apart ? fast_.data : fast_.work;
  ibv_send_wr& last = apart ? fast_.tail : fast_.work;
  last.send_flags = IBV_SEND_SIGNALED;
  const uint64_t remote = entry.address;
  const auto slot = static_cast<uint32_t>(number % kSlots);
  const uint32_t parts = row->parts;
  uint32_t begin = 0;
  for (uint32_t part = 0; part < parts; ++part) {
    LaneQueuePair& queue_pair = queuePair(row->queue_pair[part]);
    queue_pair.posted() += works;  // not beside the bytes: the compiler would add both in one vector
    const uint32_t end = row->endOf(part, bytes);
    const uint32_t size = end - begin;
    fast_.sge = {address + begin, size, memory.keys[queue_pair.rail].local()};
    first.wr.rdma.remote_addr = remote + begin;
    first.wr.rdma.rkey = keyOfRail(entry, queue_pair.peer_rail);
    first.wr_id = workRequestId(queue_pair.index);
    if (apart) last.wr.rdma = first.wr.rdma;
    last.imm_data = htonl(countedImmediate(slot, parts, size));
    queue_pair.counts().bytes += size;
    ++queue_pair.counts().segments;
    last.wr_id =
        stripePartId(slot, size) | workRequestId(queue_pair.index) | endsWorkRequests(queue_pair.cover());
    link_.endpoint.loads[queue_pair.lane].posted(stripePartBytes(size), 0);
    begin = end;
    RAILWISE_TRY(link_.post(queue_pair, &first));
    if (!fast_.open()) [[unlikely]]  // the link is lost
      return Status::success();
  }
  return thenNextTurn(Status::success());
}

// isend, where the fast path is not open or not for this message.
Status SendConnection::isendSlowPath(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory,
                                     void* profiler, Request** request) {
  *request = nullptr;
  if (must_look_) [[unlikely]] {
    RAILWISE_TRY(lookAround());
    if (!link_.running()) return Status::success();
  }
  // After a failover the ring is read again from an earlier receive on.
  if (!ring_.has(numbers().next)) {
    RAILWISE_TRY(clear_to_sends_.look());
    if (!ring_.has(numbers().next)) {
      RAILWISE_TRY(awaitClearToSend());
      if (!ring_.has(numbers().next) || !link_.running()) return Status::success();
    }
  }
  const ClearToSend& entry = ring_.entry(numbers().next);
  const bool alone = (entry.stamp & (kStampCountMask | kStampSilent)) == 1;
  const bool fits = alone && fast_.open() && profiler == nullptr && entry.tag == static_cast<uint32_t>(tag) &&
                    bytes <= entry.bytes;
  const SendPath path = fits ? limits_.pathOf(bytes) : SendPath::kSegments;
  if (path == SendPath::kSegments) return sendInGroup(address, bytes, tag, memory, profiler, request);
  LaneQueuePair& queue_pair = *fast_.queue_pair;
  Message* const message = makeRoom(queue_pair, 2) ? turn_.findFree(messages_) : nullptr;
  if (message == nullptr) return idleAfterDrain(Waiting::kAcknowledgement);
  *request = message;
  const auto size = static_cast<uint32_t>(bytes);
  if (path == SendPath::kThenImmediate)
    return thenNextTurn(sendThenImmediate(entry, address, size, *memory, *message, queue_pair));
  return thenNextTurn(times_.isDue(numbers().next)
                          ? sendWhole<true>(entry, address, size, *memory, *message, queue_pair)
                          : sendWhole<false>(entry, address, size, *memory, *message, queue_pair));
}

// Has the send queue room for so many work requests?
bool SendConnection::makeRoom(LaneQueuePair& queue_pair, uint32_t work_requests) {
  return queue_pair.sendFree() >= work_requests || (drain().ok() && queue_pair.sendFree() >= work_requests);
}

// ---- groups: several messages for one receive, and every message that needs segments

// The first send of a group, if it comes in order, as NCCL sends.
Status SendConnection::isendFirst(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory,
                                  void* profiler, Request** request) {
  const uint64_t number = numbers().next;
  // The stamp is read once: the peer can write there at any time.
  const uint64_t stamp = ring_.stamp(number);
  const ClearToSend& entry = ring_.entry(number);
  Group& group = groups_.of(number);
  Message& message = turn_.peek(messages_);
  const bool first = ClearToSendRing::valid(stamp, number) && stampCount(stamp) > 1 &&
                     ring_.isWhole(number, stamp) && fast_.open() && group.number != number &&
                     group.mayOpen() && entry.tag == static_cast<uint32_t>(tag) &&
                     bytes <= std::min<std::size_t>(entry.bytes, limits_.message) && profiler == nullptr &&
                     message.kind == Request::Kind::kFree;
  if (!first) [[unlikely]]
    return isendSlowPath(address, bytes, tag, memory, profiler, request);
  ring_.skipTo(number + 1);
  group.open(number, stamp);
  take(message, group, address, bytes, memory, nullptr);
  group.add(0, message, limits_, true, stampHost(stamp));
  *request = &message;
  if (!group.small()) return Status::success();
  batch_writes_.add(group, 0, message, entry, *fast_.queue_pair);
  fast_.open_group = &group;
  return Status::success();
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
  take(message, group, address, bytes, memory, nullptr);
  group.messages[index] = &message;
  *request = &message;
  batch_writes_.add(group, index, message, entry, *fast_.queue_pair);
  return ++group.matched < group.count ? Status::success() : closeGroup(group);
}

// The first send for a receive.
Status SendConnection::openGroup(Group& group) {
  if (!group.mayOpen()) [[unlikely]] {  // the last receive of this slot is not yet acknowledged
    RAILWISE_TRY(drain());
    if (!group.mayOpen()) return link_.idle(Waiting::kAcknowledgement);
  }
  // The stamp is read once more, for the last time: the peer can write there at any time.
  const uint64_t stamp = ring_.stamp(numbers().next);
  if (!ClearToSendRing::valid(stamp, numbers().next)) [[unlikely]]
    return clear_to_sends_.refuse(stamp);
  group.open(numbers().next, stamp);
  return Status::success();
}

Status SendConnection::sendInGroup(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory,
                                   void* profiler, Request** request) {
  if (nextPost() != numbers().next) [[unlikely]]
    RAILWISE_TRY(postGroups());
  Group& group = groups_.of(numbers().next);
  if (group.number != numbers().next) {
    RAILWISE_TRY(openGroup(group));
    if (group.number != numbers().next) return Status::success();
  }
  const int found = group.match(tag, ring_);
  if (found < 0) return idleAfterDrain(Waiting::kPeer);
  const auto index = static_cast<uint32_t>(found);
  const ClearToSend& entry = ring_.entry(group.number, index);
  const std::size_t room = std::min<std::size_t>(entry.bytes, limits_.message);
  if (bytes > room) [[unlikely]]
    return link_.fail({Code::kInvalidArgument, 0}, sizeText(bytes, room));
  Message* const message = turn_.findFree(messages_);
  if (message == nullptr) return idleAfterDrain(Waiting::kAcknowledgement);
  take(*message, group, address, bytes, memory, profiler);
  group.add(index, *message, limits_, fast_.open(), stampHost(ring_.stamp(group.number)));
  if (group.small()) batch_writes_.add(group, index, *message, entry, *fast_.queue_pair);
  *request = message;
  if (group.matched == group.count) return closeGroup(group);
  fast_.open_group = group.small() && group.in_order ? &group : nullptr;
  return Status::success();
}

// All sends of the group are there.
[[gnu::noinline]] Status SendConnection::closeGroup(Group& group) {
  fast_.open_group = nullptr;
  ++numbers().next;
  if (nextPost() + 1 == numbers().next && group.small() && makeRoom(*fast_.queue_pair, group.count + 1U)) {
    nextPost() = numbers().next;
    LaneQueuePair& queue_pair = *fast_.queue_pair;
    const bool asks = mustSignal(queue_pair) || group.batchBytes() > fast_.unsignalled_now;
    const BatchWrites::Posting to = {link_, queue_pair, asks,
                                     asks && times_.isDue(group.number) ? &times_ : nullptr};
    return thenNextTurn(group.form == SendPath::kPacked
                            ? batch_writes_.postPack(to, group, fast_.work)
                            : batch_writes_.postBatch(to, group, limits_.then_immediate));
  }
  if (segments_.cut(group)) [[unlikely]]
    planLanes();
  return postGroups();
}

// Posts the groups that are cut, in the order of the receives, as far as the send queues have room. Later
// messages wait until all of them are posted.
Status SendConnection::postGroups() {
  setFastPath(false);
  needs_slow_test_ = true;  // test() goes on with it until all is posted
  bool drained = false;
  // After a failover a group waits until the receiver has written its clear-to-send once more.
  while (nextPost() != numbers().next && ring_.has(nextPost())) {
    if (!link_.running()) return Status::success();
    if (segments_.post(groups_.of(nextPost()))) {
      nextPost() = nextPost() + 1;
      continue;
    }
    RAILWISE_TRY(link_.failure);
    if (std::exchange(drained, true)) return Status::success();
    RAILWISE_TRY(drain());
  }
  setFastPath(link_.running() && nextPost() == numbers().next);
  return Status::success();
}

}  // namespace railwise::net
