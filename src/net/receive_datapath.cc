// The hot path of the receiver. Allocates, locks, logs and calls the kernel nowhere on the way of a good
// message. (Of clear-to-sends that wait, the first in a thread's life is remembered under a lock.)
#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "net/profiler.h"
#include "net/receive_connection.h"
#include "net/send_connection.h"

namespace railwise::net {
namespace {

// What a work request says of itself in its completion: kind, queue pair, and a number.
enum WorkKind : uint64_t { kDataWork = 0, kClearToSendWork = 1, kFlushWork = 2 };

uint64_t workId(WorkKind kind, std::size_t queue_pair, uint32_t number) {
  return uint64_t{kind} << 56 | uint64_t{queue_pair} << 32 | number;
}

// Every so many silent receives one asks for a completion after all: it tells that the sender has seen all
// before it, whose slots may then be used again.
constexpr uint64_t kSilentRun = 8;

}  // namespace

Status ReceiveConnection::postReceives(std::size_t index, uint32_t first) {
  LaneQueuePair& queue_pair = queue_pairs_[index];
  for (uint32_t i = 0; i < kReplenish; ++i) {
    receive_chain_[i].wr_id = workId(kDataWork, index, first + i);
    if (!iwarp()) continue;
    const Record* const buffer = notices_ + index * kPostedReceives + first + i;
    receive_segments_[i] = {reinterpret_cast<uint64_t>(buffer), sizeof(Record), queue_pair.window_key};
  }
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(queue_pair.qp, receive_chain_.data(), &bad);
  if (error == 0) [[likely]]
    return Status::success();
  return failPost(queue_pair, "ibv_post_recv", error);
}

// Where entry `i` of a group is put together: as it will stand in the sender's ring. On iWARP the entries of a
// group are one message, so there they have a row of their own.
std::byte* ReceiveConnection::stagingOf(uint32_t slot, uint32_t i) const {
  const uint32_t place = iwarp() ? slot * kMaxReceives + i : (next_place_ + i) & (kRingEntries - 1);
  return staging_ + std::size_t{place} * entry_bytes_;
}

void ReceiveConnection::fillClearToSend(const Receive& receive, uint32_t slot,
                                        std::span<const ReceiveBuffer> buffers) {
  const uint64_t stamp =
      makeStamp(next_number_, next_place_, static_cast<int>(buffers.size()), receive.silent);
  const std::size_t rails = device_.rails().size();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const ReceiveBuffer& buffer = buffers[i];
    std::byte* const place = stagingOf(slot, static_cast<uint32_t>(i));
    auto* const entry = reinterpret_cast<ClearToSend*>(place + entry_bytes_ - sizeof(ClearToSend));
    *entry = {buffer.address,
              buffer.memory != nullptr ? buffer.memory->keys[0].remote : 0,
              static_cast<uint32_t>(buffer.tag),
              receive.pieces[i].room,
              static_cast<uint32_t>(arrived_),
              stamp};
    if (rails == 1 || buffer.memory == nullptr) continue;
    auto* const keys = reinterpret_cast<MoreKeys*>(place);
    for (std::size_t rail = 1; rail < rails; ++rail)
      keys->remote_key[rail] = buffer.memory->keys[rail].remote;
  }
}

Status ReceiveConnection::irecv(std::span<const ReceiveBuffer> buffers, bool silent, Request** request) {
  *request = nullptr;
  if (!failure_.ok()) [[unlikely]]
    return failure_;
  const auto slot = static_cast<uint32_t>(next_number_ % kSlots);
  Receive& made = receives_[slot];
  if (made.kind != Request::Kind::kFree) return endRow();
  const auto blocked = [&] {  // by silent receives that the sender has not seen, or on iWARP by the send queue
    return next_number_ > consumed_number_ + kSlots ||
           (iwarp() && queue_pairs_[reply_queue_pair_].send_free < 2);
  };
  if (blocked()) [[unlikely]] {
    RAILWISE_TRY(endRow());
    RAILWISE_TRY(poll());
    if (blocked()) return idle(Waiting::kPeer);
  }
  const auto count = static_cast<uint32_t>(buffers.size());
  bool profiled = false;
  for (std::size_t i = 0; i < count; ++i) {
    made.pieces[i].room = static_cast<uint32_t>(std::min<std::size_t>(buffers[i].bytes, kMaxMessageBytes));
    made.pieces[i].address = buffers[i].address;
    profiled = profiled || buffers[i].profiler != nullptr;
  }
  made.connection = this;
  made.kind = Request::Kind::kReceive;
  made.count = static_cast<uint8_t>(count);
  made.number = next_number_;
  made.arrived = 0;
  made.parts = 0;
  made.rails = 0;
  made.silent = silent && may_be_silent_ && count == 1 && next_number_ % kSilentRun != 0;
  made.done = made.silent;
  if (made.silent) made.pieces[0].size = made.pieces[0].room;  // NCCL reads no size of such a receive
  made.profiled = profiled && !made.silent;
  if (made.profiled) [[unlikely]]
    startEvents(made, buffers);
  fillClearToSend(made, slot, buffers);
  next_place_ = (next_place_ + count) & (kRingEntries - 1);
  pending_ += count;
  ++next_number_;
  *request = &made;
  if (++row_ >= expected_row_ || iwarp()) return postPending();
  postponed_.remember();
  return Status::success();
}

Status ReceiveConnection::endRow() {
  if (row_ != 0) expected_row_ = row_;
  row_ = 0;
  return pending_ == 0 ? Status::success() : postPending();
}

// Over the queue pair that brought data last: the sender gives most to what is fastest. At the end of the ring
// a write ends, and another follows.
Status ReceiveConnection::postPending() {
  if (pending_ == 0) return Status::success();
  LaneQueuePair& queue_pair = queue_pairs_[reply_queue_pair_];
  if (queue_pair.send_free < 2) [[unlikely]] {
    RAILWISE_TRY(poll());
    if (queue_pair.send_free < 2) return Status::success();
  }
  if (iwarp()) {
    const auto slot = static_cast<uint32_t>((next_number_ - 1) % kSlots);
    const std::byte* const from = stagingOf(slot, 0);
    return postClearToSend(from, 0, std::exchange(pending_, 0) * entry_bytes_);
  }
  const uint32_t first = (next_place_ - pending_) & (kRingEntries - 1);
  const uint32_t here = std::min(pending_, kRingEntries - first);
  const uint32_t rest = pending_ - here;
  pending_ = 0;
  const std::size_t offset = std::size_t{first} * entry_bytes_;
  RAILWISE_TRY(postClearToSend(staging_ + offset, offset, here * entry_bytes_));
  return rest == 0 ? Status::success() : postClearToSend(staging_, 0, rest * entry_bytes_);
}

Status ReceiveConnection::postClearToSend(const std::byte* from, std::size_t offset, uint32_t bytes) {
  LaneQueuePair& queue_pair = queue_pairs_[reply_queue_pair_];
  ibv_sge segment = {reinterpret_cast<uint64_t>(from), bytes, queue_pair.window_key};
  ibv_send_wr work;
  work.next = nullptr;
  work.sg_list = &segment;
  work.num_sge = 1;
  work.opcode = iwarp() ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
  work.send_flags = bytes <= queue_pair.inline_bytes ? IBV_SEND_INLINE : 0;
  work.wr.rdma.remote_addr = peer_window_ + offset;
  work.wr.rdma.rkey = queue_pair.peer_window_key;
  --queue_pair.send_free;
  // Errors are reported for the unsignalled too.
  work.wr_id = workId(kClearToSendWork, reply_queue_pair_, kClearToSendSignal);
  if (++queue_pair.unsignalled == kClearToSendSignal) {
    work.send_flags |= IBV_SEND_SIGNALED;
    queue_pair.unsignalled = 0;
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(queue_pair.qp, &work, &bad);
  if (error == 0) [[likely]]
    return Status::success();
  return failPost(queue_pair, "ibv_post_send", error);
}

// The rails that brought the latest receive at `address`; all of them when it is not known any more.
uint32_t ReceiveConnection::railsOf(uint64_t address) const {
  for (uint64_t back = 1; back <= kSlots && back < next_number_; ++back) {
    const Receive& receive = receives_[(next_number_ - back) % kSlots];
    const auto end = receive.pieces.begin() + receive.count;
    const auto has = [&](const Piece& piece) { return piece.address == address; };
    if (receive.rails != 0 && std::any_of(receive.pieces.begin(), end, has)) return receive.rails;
  }
  return (1U << device_.rails().size()) - 1;
}

Status ReceiveConnection::iflush(uint64_t address, const MemoryHandle& memory, Request** request) {
  *request = nullptr;
  if (config_.gdr_flush_disable != 0) return Status::success();
  RAILWISE_TRY(flush_failure_);
  Flush* made = flushes_.take();
  if (made == nullptr) {  // there is no "try later" for a flush
    return fail({Code::kInternal, 0},
                "more than " + std::to_string(kOutstandingFlushes) + " flushes outstanding");
  }
  made->connection = this;
  made->kind = Request::Kind::kFlush;
  made->done = false;
  made->count = 0;
  made->reads = 0;
  const uint32_t rails = railsOf(address);
  for (uint8_t rail = 0; rail < device_.rails().size(); ++rail) {
    if ((rails >> rail & 1) == 0) continue;
    flush_failure_ = postFlush(*made, rail, address, memory.keys[rail].remote);
    RAILWISE_TRY(flush_failure_);
  }
  *request = made;
  return Status::success();
}

Status ReceiveConnection::postFlush(Flush& flush, uint8_t rail, uint64_t address, uint32_t remote_key) {
  if (flush_qps_[rail] == nullptr) [[unlikely]]
    RAILWISE_TRY(openFlushQueuePair(rail));
  ibv_sge segment = {reinterpret_cast<uint64_t>(flush_target_), 1, window_.localKey(rail)};
  ibv_send_wr work = {};
  work.wr_id = workId(kFlushWork, rail, static_cast<uint32_t>(flushes_.indexOf(&flush)));
  work.sg_list = &segment;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_READ;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = address;
  work.wr.rdma.rkey = remote_key;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(flush_qps_[rail].get(), &work, &bad);
  if (error != 0)
    return fail({Code::kSystem, error}, std::string("a flush cannot be posted: ") + std::strerror(error));
  ++flush.reads;
  return Status::success();
}

// A flush needs the NIC, not the peer: neither the peer's leaving nor the connection's failure ends it.
Result<bool> ReceiveConnection::progress(const Request& request) {
  if (request.done) return true;
  const bool flush = request.kind == Request::Kind::kFlush;
  const Status polled = poll();
  if (request.done) return true;
  RAILWISE_TRY(flush ? flush_failure_ : polled);
  if (!flush) RAILWISE_TRY(idle(Waiting::kPeer));
  return false;
}

Status ReceiveConnection::poll() {
  for (const verbs::Cq& cq : cqs_) {
    ibv_wc completions[kPollBatch];
    const int count = ibv_poll_cq(cq.get(), kPollBatch, completions);
    for (int i = 0; i < count; ++i) onCompletion(completions[i]);
    heard_ = heard_ || count > 0;
    if (count < 0) [[unlikely]]
      flush_failure_ = fail({Code::kSystem, 0}, "ibv_poll_cq failed");
  }
  return failure_;
}

void ReceiveConnection::onCompletion(const ibv_wc& completion) {
  const uint64_t kind = completion.wr_id >> 56;
  const std::size_t index = (completion.wr_id >> 32) & 0xff;
  const auto number = static_cast<uint32_t>(completion.wr_id);
  if (kind == kFlushWork) [[unlikely]] {
    Flush& flush = flushes_[number];
    if (completion.status != IBV_WC_SUCCESS) {
      flush_failure_ = failFlush(index, completion);
    } else if (--flush.reads == 0) {
      flush.done = true;
    }
    return;
  }
  if ((completion.wr_id & kProbeWork) != 0) [[unlikely]] {
    (void)onProbe(completion);
    return;
  }
  LaneQueuePair& queue_pair = queue_pairs_[index];
  if (iwarp() && completion.status == IBV_WC_WR_FLUSH_ERR) [[unlikely]] {
    cut_off_ = true;  // an ordinary end of the peer's, too, flushes what is posted
  } else if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
    (void)failCompletion(queue_pair, completion, kind == kDataWork ? "a receive" : "a clear-to-send");
  } else if (kind == kDataWork) [[likely]] {
    (void)onData(index, completion);  // a failure is remembered
  } else {
    queue_pair.retire(number);
  }
}

Status ReceiveConnection::failFlush(std::size_t rail, const ibv_wc& completion) {
  return fail({Code::kRemote, 0}, std::string("a flush through ") + device_.rails()[rail].name +
                                      " failed: " + verbs::library().wc_status_str(completion.status));
}

Status ReceiveConnection::onData(std::size_t index, const ibv_wc& completion) {
  if (iwarp()) {
    const Record& notice = notices_[index * kPostedReceives + static_cast<uint32_t>(completion.wr_id)];
    RAILWISE_TRY(onImmediate(index, notice.immediate, &notice, completion.byte_len));
  } else {
    const uint32_t value = ntohl(completion.imm_data);
    RAILWISE_TRY(onImmediate(index, value, &records_[immediateSlot(value)], sizeof(Record)));
  }
  LaneQueuePair& queue_pair = queue_pairs_[index];
  if (++queue_pair.consumed % kReplenish != 0) return Status::success();
  // Receives complete in their order, so the buffers of the older half are free.
  return postReceives(index, queue_pair.consumed % kPostedReceives == 0 ? kReplenish : 0);
}

// A part has arrived. `record`: where its record is, when it says that it brought one.
Status ReceiveConnection::onImmediate(std::size_t index, uint32_t value, const Record* record,
                                      uint32_t record_bytes) {
  const uint32_t slot = immediateSlot(value);
  const ImmediateForm form = immediateForm(value);
  Receive& receive = receives_[slot];
  const bool whole = form == ImmediateForm::kWhole;
  const uint32_t part = whole ? 0 : immediatePart(value);
  const bool expected =
      receive.kind == Request::Kind::kReceive && !receive.done && (receive.arrived >> part & 1) == 0 &&
      (whole || (form <= ImmediateForm::kPartWithRecord &&
                 immediateNumber(value) == immediateNumber(static_cast<uint32_t>(receive.number))));
  if (!expected) [[unlikely]]
    return fail({Code::kRemote, 0}, "data for receive slot " + std::to_string(slot) + ", which is not open");
  receive.arrived |= 1U << part;
  receive.rails = static_cast<uint16_t>(receive.rails | 1U << queue_pairs_[index].rail);
  if (whole) {
    receive.parts = 1;
    for (std::size_t i = 0; i < receive.count; ++i) receive.pieces[i].size = immediateSize(value);
  } else if (form == ImmediateForm::kPartWithRecord) {
    if (record_bytes < recordBytes(receive.count) ||
        record->number != static_cast<uint32_t>(receive.number) || record->parts < 1 ||
        record->parts > uint32_t{kMaxLanes}) [[unlikely]] {
      return fail({Code::kRemote, 0},
                  "a record that does not belong to receive " + std::to_string(receive.number));
    }
    receive.parts = record->parts;
    for (std::size_t i = 0; i < receive.count; ++i) receive.pieces[i].size = record->sizes[i];
  }
  if (form != ImmediateForm::kPart) reply_queue_pair_ = static_cast<uint8_t>(index);
  if (whole) return complete(receive);
  if (receive.parts == 0 || std::popcount(receive.arrived) != static_cast<int>(receive.parts))
    return Status::success();
  return complete(receive);
}

Status ReceiveConnection::failTooLong(const Piece& piece) {
  return fail({Code::kRemote, 0}, "the peer reports a message of " + std::to_string(piece.size) +
                                      " bytes for a buffer of " + std::to_string(piece.room));
}

Status ReceiveConnection::complete(Receive& receive) {
  for (std::size_t i = 0; i < receive.count; ++i) {
    if (receive.pieces[i].size > receive.pieces[i].room) [[unlikely]]
      return failTooLong(receive.pieces[i]);
  }
  consumed_number_ = std::max(consumed_number_, receive.number);
  receive.done = true;
  // Lanes overtake each other; silent ones bring nothing, and are there when one behind them is.
  while (receives_[(arrived_ + 1) % kSlots].number == arrived_ + 1 &&
         receives_[(arrived_ + 1) % kSlots].done)
    ++arrived_;
  if (receive.profiled) [[unlikely]]
    stopEvents(receive);
  return Status::success();
}

void ReceiveConnection::startEvents(Receive& receive, std::span<const ReceiveBuffer> buffers) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    profiler::Event event = {};
    event.kind = RAILWISE_PROFILER_RECEIVE;
    event.device = device_.index();
    event.rail = -1;
    event.qp_number = queue_pairs_[reply_queue_pair_].qp->qp_num;
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
    event.device = device_.index();
    event.rail = -1;
    event.message = receive.number;
    event.bytes = receive.pieces[i].size;
    profiler::stop(receive.events[i], event);
  }
}

void ReceiveConnection::release(Request& request) {
  const bool flush = request.kind == Request::Kind::kFlush;
  request.kind = Request::Kind::kFree;
  if (flush) flushes_.give(static_cast<Flush*>(&request));
}

// ---- both directions

Status Connection::test(Request& request, bool* done, int* sizes) {
  if (direction_ == Direction::kSend) {
    auto& self = *static_cast<SendConnection*>(this);
    *done = self.complete(request);
    if (!*done) {
      const Result<bool> found = self.progress(request);
      if (!found.ok()) return found.status();
      if (!*found) return Status::success();
      *done = true;
    }
    if (sizes != nullptr) sizes[0] = static_cast<int>(request.bytes);
    self.release(request);
    return Status::success();
  }
  auto& self = *static_cast<ReceiveConnection*>(this);
  *done = request.done;
  if (self.inRow()) [[unlikely]]
    (void)self.endRow();  // a failure is remembered
  if (!*done) {
    const Result<bool> found = self.progress(request);
    if (!found.ok()) return found.status();
    if (!*found) return Status::success();
    *done = true;
  }
  self.report(request, sizes);
  self.release(request);
  return Status::success();
}

void ReceiveConnection::report(const Request& request, int* sizes) const {
  if (sizes == nullptr || request.kind != Request::Kind::kReceive) return;
  const auto& receive = static_cast<const Receive&>(request);
  for (std::size_t i = 0; i < receive.count; ++i) sizes[i] = static_cast<int>(receive.pieces[i].size);
}

}  // namespace railwise::net
