// The receiver's completions, and what test() makes of them: a hot path. On the path of a good message
// nothing allocates, locks, logs or calls the kernel.
#include <arpa/inet.h>

#include <algorithm>
#include <bit>

#include "net/receiver/receive_connection.h"
#include "net/receiver/receives.h"

namespace railwise::net {
namespace {

Status failNotOpen(Link& link, uint32_t slot) {
  return link.fail({Code::kRemote, 0},
                   "data for receive slot " + std::to_string(slot) + ", which is not open");
}

Status failTooLong(Link& link, uint32_t bytes, uint32_t room) {
  return link.fail({Code::kRemote, 0}, "the peer reports a message of " + std::to_string(bytes) +
                                           " bytes for a buffer of " + std::to_string(room));
}

}  // namespace

[[gnu::always_inline]] inline Status ReceiveConnection::onData(std::size_t index, const ibv_wc& completion) {
  LaneQueuePair& queue_pair = queuePair(index);
  const Record* notice = nullptr;
  uint32_t value = ntohl(completion.imm_data);
  uint32_t record_bytes = sizeof(Record);
  if (!link_.rules.has_immediates) {
    notice = &posted_receives_.notice(index, completion);
    value = notice->immediate;
    record_bytes = completion.byte_len;
  }
  if (immediateForm(value) == ImmediateForm::kWhole) [[likely]] {
    RAILWISE_TRY(onWhole(queue_pair, value));
  } else if (immediateForm(value) == ImmediateForm::kCounted) {
    RAILWISE_TRY(onCounted(queue_pair, value));
  } else if (immediateForm(value) == ImmediateForm::kPacked) {
    RAILWISE_TRY(onPacked(queue_pair, value));
  } else {
    const Record* const record = notice != nullptr ? notice : &records_[immediateSlot(value)];
    RAILWISE_TRY(onSegment(queue_pair, value, record, record_bytes));
  }
  const int error = posted_receives_.renew(queue_pair);
  return error == 0 ? Status::success() : link_.failPost(queue_pair, "ibv_post_recv", error);
}

// All messages of a receive have arrived, and they are of one size.
[[gnu::always_inline]] inline Status ReceiveConnection::onWhole(LaneQueuePair& queue_pair, uint32_t value) {
  Receive& receive = receives_.inSlot(immediateSlot(value));
  if (receive.kind != Request::Kind::kReceive || receive.arrived != 0) [[unlikely]]
    return failNotOpen(link_, immediateSlot(value));
  receive.rails = queue_pair.rail_bit;
  receive.bytes = immediateSize(value);
  receive.alike = true;
  reply_queue_pair_ = queue_pair.index;
  if (receive.bytes > receive.least_room) [[unlikely]]
    return failTooLong(link_, receive.bytes, receive.least_room);
  queue_pair.counts().bytes += receive.bytes;  // of groups finish() counts the other messages
  complete(receive);
  return Status::success();
}

// A segment of a message that is alone in its receive has arrived.
[[gnu::always_inline]] inline Status ReceiveConnection::onCounted(LaneQueuePair& queue_pair, uint32_t value) {
  const uint32_t slot = immediateSlot(value);
  Receive& receive = receives_.inSlot(slot);
  const uint32_t bytes = immediatePartBytes(value);
  const uint32_t parts = immediateParts(value);
  const uint64_t arrived = receive.arrived + 1;  // 0: the receive is complete
  uint32_t sum = bytes;
  if (arrived == 1 && receive.kind == Request::Kind::kReceive && receive.count == 1) {
    receive.alike = true;
    receive.segments = static_cast<uint8_t>(parts);
    reply_queue_pair_ = queue_pair.index;
  } else if (arrived <= 1 || receive.kind != Request::Kind::kReceive || !receive.alike ||
             receive.segments != parts) [[unlikely]] {
    return failNotOpen(link_, slot);
  } else {
    sum += receive.bytes;  // at most kMostCountedParts times kImmediatePartLimit
  }
  receive.bytes = sum;
  receive.rails = static_cast<uint16_t>(receive.rails | queue_pair.rail_bit);
  queue_pair.counts().bytes += bytes;
  ++queue_pair.counts().segments;
  receive.arrived = arrived;
  if (arrived != parts) return Status::success();
  if (sum > receive.least_room) [[unlikely]]
    return failTooLong(link_, sum, receive.least_room);
  complete(receive);
  return Status::success();
}

// All messages of a receive have arrived in the window, packed. They are copied to their buffers.
Status ReceiveConnection::onPacked(LaneQueuePair& queue_pair, uint32_t value) {
  const uint32_t slot = immediateSlot(value);
  const uint32_t bytes = immediateSize(value);
  const Receive& receive = receives_.inSlot(slot);
  if (receive.kind != Request::Kind::kReceive || receive.count < 2 || !receive.host ||
      !link_.rules.has_immediates || bytes > receive.least_room ||
      uint64_t{bytes} * receive.count > kPackBytes)
    return failNotOpen(link_, slot);
  for (std::size_t i = 0; i < receive.count; ++i)
    copyShort(reinterpret_cast<void*>(receive.addresses[i]),  // NOLINT(performance-no-int-to-ptr)
              packs_[slot].bytes + i * bytes, bytes);
  return onWhole(queue_pair, value);
}

// A segment has arrived. `record`: where the record is, if the immediate says that this segment brought one.
Status ReceiveConnection::onSegment(LaneQueuePair& queue_pair, uint32_t value, const Record* record,
                                    uint32_t record_bytes) {
  const uint32_t slot = immediateSlot(value);
  Receive& receive = receives_.inSlot(slot);
  const uint32_t segment = immediateSegment(value);
  const bool expected = receive.isOpen() && !receive.alike && (receive.arrived >> segment & 1) == 0 &&
                        immediateNumber(value) == immediateNumber(static_cast<uint32_t>(receive.number));
  if (!expected) return failNotOpen(link_, slot);
  receive.arrived |= uint64_t{1} << segment;
  receive.rails = static_cast<uint16_t>(receive.rails | queue_pair.rail_bit);
  if (immediateBringsRecord(value)) {
    if (record_bytes < recordBytes(receive.count) ||
        record->number != static_cast<uint32_t>(receive.number) || record->segments < 1 ||
        record->segments > uint32_t{kMaxLanes}) {
      return link_.fail({Code::kRemote, 0},
                        "a record that does not belong to receive " + std::to_string(receive.number));
    }
    receive.segments = static_cast<uint8_t>(record->segments);
    for (std::size_t i = 0; i < receive.count; ++i) receive.sizes[i] = record->sizes[i];
    reply_queue_pair_ = queue_pair.index;
  }
  ++queue_pair.counts().segments;
  if (receive.segments == 0 || std::popcount(receive.arrived) != static_cast<int>(receive.segments))
    return Status::success();
  for (std::size_t i = 0; i < receive.count; ++i) {
    if (receive.sizes[i] > receive.room(i)) return failTooLong(link_, receive.sizes[i], receive.room(i));
  }
  receive.bytes = receive.sizes[0];
  for (std::size_t i = 0; i < receive.count; ++i) numbers().spread_bytes += receive.sizes[i];
  complete(receive);
  return Status::success();
}

inline void ReceiveConnection::complete(Receive& receive) {
  receive.arrived = Receive::kAllArrived;
  const uint64_t arrived = arrivedUpTo();
  if (receive.number == arrived + 1 && matched_ == arrived) [[likely]] {
    arrivedUpTo() = matched_ = receive.number;
  } else {
    matched_ = std::max(matched_, receive.number);
    arrivedUpTo() = receives_.completeUpTo(arrived, matched_);
  }
  if (receive.profiled) [[unlikely]]
    stopEvents(receive, link_.device.index());
}

[[gnu::always_inline]] inline void ReceiveConnection::onCompletion(const ibv_wc& completion) {
  const uint64_t id = completion.wr_id;
  const std::size_t index = workQueuePair(id);
  const bool receives = (id & kReceiveWork) != 0;
  if (receives && completion.status == IBV_WC_SUCCESS) [[likely]] {
    (void)onData(index, completion);  // a failure is remembered
    return;
  }
  LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[index];
  queue_pair.rest->receives_failed += receives ? 1 : 0;
  if (completion.status == IBV_WC_SUCCESS) queue_pair.retire(workRequestsEnded(id));
  else (void)link_.loseCompletion(queue_pair, completion, receives ? "a receive" : "a clear-to-send");
}

Status ReceiveConnection::poll() {
  RAILWISE_TRY(link_.poll([this](const ibv_wc& completion) {
    onCompletion(completion);
    return Status::success();
  }));
  return link_.failure;
}

void ReceiveConnection::finish(const Receive& receive, int* sizes) {
  if (receive.alike && receive.count > 1)  // the data path has counted one of the messages
    queuePair(reply_queue_pair_).counts().bytes += uint64_t{receive.bytes} * (receive.count - 1U);
  for (std::size_t i = 0; sizes != nullptr && i < receive.count; ++i)
    sizes[i] = static_cast<int>(receive.size(i));
}

bool ReceiveConnection::testGroup(Request& request, int* sizes) {
  const auto& receive = static_cast<const Receive&>(request);
  if (receive.kind != Request::Kind::kReceive || !receive.complete()) return false;
  finish(receive, sizes);
  free(request);
  return true;
}

Status ReceiveConnection::testSlowPath(Request& request, bool* done, int* sizes) {
  if (numbers().posted != numbers().next) [[unlikely]]  // the send queue was full
    (void)postPending();                                // a failure is remembered
  needs_slow_test_ = numbers().posted != numbers().next;
  const Status polled = poll();
  if (request.kind == Request::Kind::kFlush) [[unlikely]]
    return flusher_.test(request, done);
  *done = request.complete();
  if (!*done) {
    RAILWISE_TRY(polled);
    return link_.idle(Waiting::kPeer);
  }
  request.kind = Request::Kind::kFree;
  finish(static_cast<const Receive&>(request), sizes);
  return Status::success();
}

Status ReceiveConnection::iflush(uint64_t address, const MemoryHandle& memory, Request** request) {
  *request = nullptr;
  if (link_.config.gdr_flush_disable != 0) return Status::success();
  return flusher_.begin(address, memory, receives_.latestAt(address, numbers().next), request);
}

void ReceiveConnection::handleCompletions(const ibv_wc* completions, int count) noexcept {
  handleEach(completions, count, [this](const ibv_wc& completion) { onCompletion(completion); });
}

}  // namespace railwise::net
