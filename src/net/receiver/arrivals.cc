// The hot path of the receiver. On the path of a good message nothing allocates, locks, logs or calls the
// kernel. Each irecv writes its clear-to-send at once, because nobody knows how soon the sender needs it.
#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "net/profiler.h"
#include "net/receiver/receive_connection.h"

namespace railwise::net {
namespace {

// One silent receive among so many requests a completion. The completion shows that the sender has matched
// all earlier receives, so their slots are free.
constexpr uint64_t kSilentRun = 8;

constexpr std::size_t kClearToSendChain = 4;

}  // namespace

int ReceiveConnection::tryToPostReceives(std::size_t index, uint32_t first) {
  LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[index];
  const bool with_buffers = !link_.rules.has_immediates;
  const bool filled = !with_buffers && receive_chain_[0].wr_id == receiveWorkId(0, index);
  for (uint32_t i = 0; i < kReplenish && !filled; ++i) {
    receive_chain_[i].wr_id = receiveWorkId(with_buffers ? first + i : 0, index);
    if (with_buffers) receive_sges_[i] = notices_.sge(index, first + i, queue_pair.window_key);
  }
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(queue_pair.qp, receive_chain_.data(), &bad);
  queue_pair.rest->receives_posted += error == 0 ? kReplenish : 0;
  return error;
}

Status ReceiveConnection::postReceives(std::size_t index, uint32_t first) {
  const int error = tryToPostReceives(index, first);
  if (error == 0) [[likely]]
    return Status::success();
  return link_.failPost(link_.endpoint.queue_pairs[index], "ibv_post_recv", error);
}

// The place of entry `i` of a receive in the staging ring, which has the layout of the sender's ring.
std::byte* ReceiveConnection::stagingOf(uint64_t number, uint32_t i) const {
  return staging_ + std::size_t{ringPlace(number) + i} * entry_bytes_;
}

// Fills in a receive of several buffers or on several rails.
void ReceiveConnection::fillGroup(Receive& receive, uint32_t slot, std::span<const ReceiveBuffer> buffers) {
  const auto count = static_cast<uint32_t>(buffers.size());
  uint32_t least_room = UINT32_MAX;
  bool host = true;
  for (const ReceiveBuffer& buffer : buffers) {
    least_room = std::min(least_room, roomOf(buffer));
    host = host && buffer.memory != nullptr && buffer.memory->kind == MemoryKind::kHost;
  }
  receive.least_room = least_room;
  receive.host = host;
  const uint64_t flags = (receive.silent ? kStampSilent : 0) | (host ? kStampHost : 0);
  const uint64_t stamp = makeStamp(numbers().next, static_cast<int>(count), flags);
  for (uint32_t i = 0; i < count; ++i) {
    const ReceiveBuffer& buffer = buffers[i];
    const uint32_t room = roomOf(buffer);
    receive.addresses[i] = buffer.address;
    receive.rooms[i] = room;
    memories_[i][slot] = buffer.memory;
    std::byte* const place = stagingOf(numbers().next, i);
    *reinterpret_cast<ClearToSend*>(place + entry_bytes_ - sizeof(ClearToSend)) =
        entryOf(buffer, room, stamp);
    if (entry_bytes_ > sizeof(ClearToSend) && buffer.memory != nullptr)
      fillMoreKeys(*reinterpret_cast<MoreKeys*>(place), *buffer.memory);
  }
}

void ReceiveConnection::fillMoreKeys(MoreKeys& keys, const MemoryHandle& memory) const {
  for (std::size_t rail = 1; rail < link_.endpoint.rails.size(); ++rail)
    keys.remote_key[rail] = memory.keys[rail].remote();
}

Status ReceiveConnection::irecvSlowPath(std::span<const ReceiveBuffer> buffers, bool silent,
                                        Request** request) {
  *request = nullptr;
  if (!link_.failure.ok()) return link_.failure;
  if (!link_.running() || link_.bell.raised()) RAILWISE_TRY(link_.idle(Waiting::kPeer));
  const auto slot = static_cast<uint32_t>(numbers().next % kSlots);
  Receive& made = receives_[slot];
  if (made.kind != Request::Kind::kFree) return Status::success();
  if (blocked()) {
    RAILWISE_TRY(poll());
    if (blocked()) return link_.idle(Waiting::kPeer);
  }
  const auto count = static_cast<uint32_t>(buffers.size());
  open(made, count, roomOf(buffers[0]));
  if (silent) makeSilent(made);
  if (!made.silent && std::any_of(buffers.begin(), buffers.end(),
                                  [](const ReceiveBuffer& buffer) { return buffer.profiler != nullptr; }))
    startEvents(made, buffers);
  fillGroup(made, slot, buffers);
  // Without queue pairs the next epoch does this.
  const bool standby = !link_.endpoint.native && link_.hasQueuePairs();
  if (standby && !writeKeys(made)) {
    (void)link_.lose(&link_.endpoint.queue_pairs[reply_queue_pair_], {Code::kSystem, ENOMEM},
                     "memory cannot be registered with a standby rail");
  }
  *request = &made;
  ++numbers().next;
  return postPending();
}

// The receive must wait: for silent receives that the sender has not matched, or on iWARP for room in the
// send queue (without queue pairs the next epoch writes its clear-to-send).
bool ReceiveConnection::blocked() const {
  return numbers().next > matched_ + kSlots ||
         (!link_.rules.has_immediates && link_.running() &&
          link_.endpoint.queue_pairs[reply_queue_pair_].sendFree() == 0);
}

// NCCL reads no size of a silent receive, and profiles none.
void ReceiveConnection::makeSilent(Receive& receive) const {
  if (!may_be_silent_ || receive.count != 1 || receive.number % kSilentRun == 0) return;
  receive.silent = receive.alike = true;
  receive.arrived = kAllArrived;
  receive.bytes = receive.least_room;
}

// Posts the clear-to-sends that are not posted yet, over the queue pair that brought data last: the sender
// gives most data to the fastest lane.
Status ReceiveConnection::postPending() {
  if (!link_.running()) [[unlikely]]  // they go with the next epoch
    return Status::success();
  LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[reply_queue_pair_];
  while (numbers().posted != numbers().next) {
    if (queue_pair.sendFree() == 0) [[unlikely]] {
      RAILWISE_TRY(poll());
      needs_slow_test_ = queue_pair.sendFree() == 0;
      if (needs_slow_test_) return Status::success();
    }
    std::array<ibv_send_wr, kClearToSendChain> works;
    std::array<ibv_sge, kClearToSendChain> sges;
    std::size_t count = 0;
    while (count < works.size() && numbers().posted != numbers().next && queue_pair.sendFree() > 0) {
      nextClearToSend(queue_pair, works[count], sges[count]);
      if (count > 0) works[count - 1].next = &works[count];
      ++count;
    }
    RAILWISE_TRY(link_.post(queue_pair, works.data()));
  }
  return Status::success();
}

// The work request for all entries of one receive.
inline void ReceiveConnection::nextClearToSend(LaneQueuePair& queue_pair, ibv_send_wr& work, ibv_sge& sge) {
  const uint64_t number = numbers().posted++;
  const uint32_t skipped = link_.rules.unwritten_bytes;
  const std::size_t offset = std::size_t{ringPlace(number)} * entry_bytes_ + skipped;
  const uint32_t bytes = receives_[number % kSlots].count * entry_bytes_ - skipped;
  sge = {reinterpret_cast<uint64_t>(staging_ + offset), bytes, queue_pair.window_key};
  queue_pair.counts().control_extra += int64_t{bytes} - queue_pair.counts().control_each;
  work.opcode = link_.rules.clear_to_send;
  fillClearToSend(work, sge, queue_pair, offset);
}

Status ReceiveConnection::progress(const Request& request, bool* done) {
  if (numbers().posted != numbers().next) [[unlikely]]  // the send queue was full
    (void)postPending();                                // a failure is remembered
  needs_slow_test_ = numbers().posted != numbers().next;
  const Status polled = poll();
  if (request.kind == Request::Kind::kFlush) [[unlikely]]
    return flusher_.progress(request, done);
  *done = request.complete();
  if (*done) return Status::success();
  RAILWISE_TRY(polled);
  return link_.idle(Waiting::kPeer);
}

Status ReceiveConnection::poll() {
  RAILWISE_TRY(link_.poll([this](const ibv_wc& completion) {
    onCompletion(completion);
    return Status::success();
  }));
  return link_.failure;
}

void ReceiveConnection::onCompletion(const ibv_wc& completion) {
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

inline Status ReceiveConnection::onData(std::size_t index, const ibv_wc& completion) {
  LaneQueuePair& queue_pair = queuePair(index);
  const Record* notice = nullptr;
  uint32_t value = ntohl(completion.imm_data);
  uint32_t record_bytes = sizeof(Record);
  if (!link_.rules.has_immediates) {
    notice = reinterpret_cast<const Record*>(notices_.at(index, workBuffer(completion.wr_id)));
    value = notice->immediate;
    record_bytes = completion.byte_len;
  }
  if (immediateForm(value) == ImmediateForm::kWhole) [[likely]] {
    RAILWISE_TRY(onWhole(queue_pair, index, value));
  } else if (immediateForm(value) == ImmediateForm::kPacked) {
    RAILWISE_TRY(onPacked(queue_pair, index, value));
  } else {
    const Record* const record = notice != nullptr ? notice : &records_[immediateSlot(value)];
    RAILWISE_TRY(onSegment(index, value, record, record_bytes));
  }
  if (++queue_pair.consumed % kReplenish != 0) [[likely]]
    return Status::success();
  // Posted receives complete in order, so the buffers of the older half are free.
  return postReceives(index, queue_pair.consumed % kPostedReceives == 0 ? kReplenish : 0);
}

Status ReceiveConnection::failNotOpen(uint32_t slot) {
  return link_.fail({Code::kRemote, 0},
                    "data for receive slot " + std::to_string(slot) + ", which is not open");
}

// All messages of a receive have arrived, and they are of one size.
[[gnu::always_inline]] inline Status ReceiveConnection::onWhole(LaneQueuePair& queue_pair, std::size_t index,
                                                                uint32_t value) {
  Receive& receive = receives_[immediateSlot(value)];
  if (receive.kind != Request::Kind::kReceive || receive.arrived != 0) [[unlikely]]
    return failNotOpen(immediateSlot(value));
  receive.rails = queue_pair.rail_bit;
  receive.bytes = immediateSize(value);
  receive.alike = true;
  reply_queue_pair_ = static_cast<uint8_t>(index);
  if (receive.bytes > receive.least_room) [[unlikely]]
    return failTooLong(receive.bytes, receive.least_room);
  queue_pair.counts().bytes += receive.bytes;  // of groups finish() counts the other messages
  complete(receive);
  return Status::success();
}

// All messages of a receive have arrived in the window, packed. They are copied to their buffers.
Status ReceiveConnection::onPacked(LaneQueuePair& queue_pair, std::size_t index, uint32_t value) {
  const uint32_t slot = immediateSlot(value);
  const uint32_t bytes = immediateSize(value);
  const Receive& receive = receives_[slot];
  if (receive.kind != Request::Kind::kReceive || receive.count < 2 || !receive.host ||
      !link_.rules.has_immediates || bytes > receive.least_room ||
      uint64_t{bytes} * receive.count > kPackBytes)
    return failNotOpen(slot);
  for (std::size_t i = 0; i < receive.count; ++i)
    copyShort(reinterpret_cast<void*>(receive.addresses[i]),  // NOLINT(performance-no-int-to-ptr)
              packs_[slot].bytes + i * bytes, bytes);
  return onWhole(queue_pair, index, value);
}

// A segment has arrived. `record`: where the record is, if the immediate says that this segment brought one.
Status ReceiveConnection::onSegment(std::size_t index, uint32_t value, const Record* record,
                                    uint32_t record_bytes) {
  const uint32_t slot = immediateSlot(value);
  const ImmediateForm form = immediateForm(value);
  Receive& receive = receives_[slot];
  const uint32_t segment = immediateSegment(value);
  const bool expected = receive.isOpen() && (receive.arrived >> segment & 1) == 0 &&
                        form <= ImmediateForm::kSegmentWithRecord &&
                        immediateNumber(value) == immediateNumber(static_cast<uint32_t>(receive.number));
  if (!expected) return failNotOpen(slot);
  receive.arrived |= uint64_t{1} << segment;
  receive.rails = static_cast<uint16_t>(receive.rails | 1U << link_.endpoint.queue_pairs[index].rail);
  if (form == ImmediateForm::kSegmentWithRecord) {
    if (record_bytes < recordBytes(receive.count) ||
        record->number != static_cast<uint32_t>(receive.number) || record->segments < 1 ||
        record->segments > uint32_t{kMaxLanes}) {
      return link_.fail({Code::kRemote, 0},
                        "a record that does not belong to receive " + std::to_string(receive.number));
    }
    receive.segments = static_cast<uint8_t>(record->segments);
    for (std::size_t i = 0; i < receive.count; ++i) receive.sizes[i] = record->sizes[i];
    reply_queue_pair_ = static_cast<uint8_t>(index);
  }
  LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[index];
  ++queue_pair.counts().segments;
  if (receive.segments == 0 || std::popcount(receive.arrived) != static_cast<int>(receive.segments))
    return Status::success();
  for (std::size_t i = 0; i < receive.count; ++i) {
    if (receive.sizes[i] > receive.room(i)) return failTooLong(receive.sizes[i], receive.room(i));
  }
  receive.bytes = receive.sizes[0];
  for (std::size_t i = 0; i < receive.count; ++i) numbers().spread_bytes += receive.sizes[i];
  complete(receive);
  return Status::success();
}

Status ReceiveConnection::failTooLong(uint32_t bytes, uint32_t room) {
  return link_.fail({Code::kRemote, 0}, "the peer reports a message of " + std::to_string(bytes) +
                                            " bytes for a buffer of " + std::to_string(room));
}

inline void ReceiveConnection::complete(Receive& receive) {
  receive.arrived = kAllArrived;
  const uint64_t arrived = arrivedUpTo();
  if (receive.number == arrived + 1 && matched_ == arrived) [[likely]] {
    arrivedUpTo() = matched_ = receive.number;
  } else {
    matched_ = std::max(matched_, receive.number);
    advanceArrived();
  }
  if (receive.profiled) [[unlikely]]
    stopEvents(receive);
}

// Counts the receives that are complete in order. Lanes overtake each other. Silent receives report nothing;
// they are complete when a later receive is.
void ReceiveConnection::advanceArrived() {
  while (arrivedUpTo() < matched_) {
    const Receive& next = receives_[(arrivedUpTo() + 1) % kSlots];
    if (next.number != arrivedUpTo() + 1 || !next.complete()) return;
    arrivedUpTo() = arrivedUpTo() + 1;
  }
}

void ReceiveConnection::startEvents(Receive& receive, std::span<const ReceiveBuffer> buffers) {
  receive.profiled = true;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    profiler::Event event = {};
    event.kind = RAILWISE_PROFILER_RECEIVE;
    event.device = link_.device.index();
    event.rail = -1;
    const ibv_qp* const qp = link_.endpoint.queue_pairs[reply_queue_pair_].qp;
    event.qp_number = qp != nullptr ? qp->qp_num : 0;
    event.tag = buffers[i].tag;
    event.message = receive.number;
    event.bytes = buffers[i].bytes;
    receive.events[i] = profiler::start(buffers[i].profiler, event);
  }
}

void ReceiveConnection::stopEvents(Receive& receive) {
  for (std::size_t i = 0; i < receive.count; ++i) {
    profiler::Event event = {};
    event.kind = RAILWISE_PROFILER_RECEIVE;
    event.device = link_.device.index();
    event.rail = -1;
    event.message = receive.number;
    event.bytes = sizeOf(receive, i);
    profiler::stop(receive.events[i], event);
  }
}

uint32_t ReceiveConnection::sizeOf(const Receive& receive, std::size_t i) {
  return receive.alike ? receive.bytes : receive.sizes[i];
}

void ReceiveConnection::finish(Request& request, int* sizes) {
  const bool flush = request.kind == Request::Kind::kFlush;
  request.kind = Request::Kind::kFree;
  if (flush) return flusher_.free(request);
  const auto& receive = static_cast<const Receive&>(request);
  if (receive.alike && receive.count > 1)
    link_.endpoint.queue_pairs[reply_queue_pair_].counts().bytes +=
        uint64_t{receive.bytes} * (receive.count - 1U);
  for (std::size_t i = 0; sizes != nullptr && i < receive.count; ++i)
    sizes[i] = static_cast<int>(sizeOf(receive, i));
}

UnderWay ReceiveConnection::underWay() const {
  for (uint64_t number = arrivedUpTo() + 1; number < numbers().next; ++number) {
    const Receive& receive = receives_[number % kSlots];
    if (receive.number == number && !receive.complete()) return {number, receive.allRoom()};
  }
  return {};
}

uint64_t ReceiveConnection::largestUnderWay() const {
  uint64_t largest = 0;
  for (const Receive& receive : receives_) {
    if (receive.isOpen()) largest = std::max(largest, receive.allRoom());
  }
  return largest;
}

// ---- flushes

// The latest complete receive at `address`; null: it is not known any more.
const ReceiveConnection::Receive* ReceiveConnection::latestAt(uint64_t address) const {
  for (uint64_t back = 1; back <= kSlots && back < numbers().next; ++back) {
    const Receive& receive = receives_[(numbers().next - back) % kSlots];
    const auto end = receive.addresses.begin() + receive.count;
    if (receive.complete() && std::find(receive.addresses.begin(), end, address) != end) return &receive;
  }
  return nullptr;
}

// The rails of the epochs before that still work, if the receive came in one of them (`rails` is cleared with
// each epoch). What a lost rail has written is in memory by now: its PCIe writes have had the time of a
// failover.
std::vector<Rail> ReceiveConnection::earlierRailsOf(const Receive* receive) const {
  std::vector<Rail> rails;
  if (receive == nullptr || receive->rails != 0 || receive->number > earlier_.up_to) return rails;
  std::copy_if(earlier_.rails.begin(), earlier_.rails.end(), std::back_inserter(rails),
               [](const Rail& rail) { return rail.hca->state().active(rail.port.number); });
  return rails;
}

Status ReceiveConnection::iflush(uint64_t address, const MemoryHandle& memory, Request** request) {
  *request = nullptr;
  if (link_.config.gdr_flush_disable != 0) return Status::success();
  Flusher::Flush* flush = nullptr;
  const Receive* const receive = latestAt(address);
  std::vector<Rail> earlier = earlierRailsOf(receive);
  if (earlier.empty() && !link_.running()) earlier = railsForFlush();
  const std::span<const Rail> rails = earlier.empty() ? link_.endpoint.rails : earlier;
  const bool known = earlier.empty() && receive != nullptr && receive->rails != 0;
  const uint32_t which = known ? receive->rails : (1U << rails.size()) - 1;
  RAILWISE_TRY(flusher_.begin(address, memory, rails, which, &flush));
  flush->connection = this;
  *request = flush;
  return Status::success();
}

// While the connection waits for the peer, which may have nothing to send for hours, its endpoint has no
// rails that work.
std::vector<Rail> ReceiveConnection::railsForFlush() const {
  return link_.running() ? link_.endpoint.rails : link_.usableRails();
}

Status ReceiveConnection::testSlowPath(Request& request, bool* done, int* sizes) {
  RAILWISE_TRY(progress(request, done));
  if (*done) finish(request, sizes);
  return Status::success();
}

void ReceiveConnection::handleCompletions(const ibv_wc* completions, int count) noexcept {
  handleEach(completions, count, [this](const ibv_wc& completion) {
    onCompletion(completion);
    return true;
  });
}

}  // namespace railwise::net
