// The hot path: isend, irecv, iflush, test. No allocation, lock, system call or log on the way of a good
// message.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "net/connection.h"
#include "net/windows.h"

namespace railwise::net {
namespace {

[[gnu::cold, gnu::noinline]] std::string sizeText(std::size_t bytes, std::size_t room) {
  return "a send of " + std::to_string(bytes) + " bytes does not fit " + std::to_string(room) + " bytes";
}

}  // namespace

Result<bool> Connection::test(Request& request, int* sizes) {
  const Result<bool> done = direction_ == Direction::kSend
                                ? static_cast<SendConnection*>(this)->progress(request)
                                : static_cast<ReceiveConnection*>(this)->progress(request);
  if (!done.ok() || !*done) return done;
  if (sizes != nullptr) {
    for (int i = 0; i < request.count; ++i) sizes[i] = static_cast<int>(request.sizes[i]);
  }
  direction_ == Direction::kSend ? static_cast<SendConnection*>(this)->release(request)
                                 : static_cast<ReceiveConnection*>(this)->release(request);
  return true;
}

// ---- sender

// Has the clear-to-send of the next receive arrived as a whole?
Status SendConnection::openGroup() {
  const ClearToSend* entries = window_->ring[next_number_ % kSlots];
  const uint64_t first = __atomic_load_n(&entries[0].stamp, __ATOMIC_ACQUIRE);
  if (stampNumber(first) != next_number_) return idle(Waiting::kPeer);
  const int count = stampCount(first);
  if (count < 1 || count > kMaxReceives) {
    return fail({Code::kRemote, 0}, "clear-to-send for " + std::to_string(count) + " receives");
  }
  for (int i = count - 1; i > 0; --i) {
    if (__atomic_load_n(&entries[i].stamp, __ATOMIC_ACQUIRE) != first) return idle(Waiting::kPeer);
  }
  group_count_ = count;
  matched_ = 0;
  for (int i = 0; i < count; ++i) pending_[i].request = nullptr;
  return Status::success();
}

// The first open entry with this tag (a tag may stand twice in a group), or -1.
int SendConnection::match(int tag) const {
  const ClearToSend* entries = window_->ring[next_number_ % kSlots];
  for (int i = 0; i < group_count_; ++i) {
    if (pending_[i].request == nullptr && entries[i].tag == static_cast<uint32_t>(tag)) return i;
  }
  return -1;
}

Status SendConnection::checkSize(std::size_t bytes, const ClearToSend& entry) {
  const std::size_t room = std::min<std::size_t>(entry.bytes, std::size_t{piece_bytes_} * kMaxPieces);
  if (bytes <= room && bytes <= device_.properties.max_message_bytes) [[likely]]
    return Status::success();
  return fail({Code::kInvalidArgument, 0},
              sizeText(bytes, std::min(room, device_.properties.max_message_bytes)));
}

Status SendConnection::isend(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory,
                             Request** request) {
  *request = nullptr;
  if (!failure_.ok()) return failure_;
  if (groupWaits()) [[unlikely]]
    RAILWISE_TRY(postGroup());
  if (group_count_ == 0) RAILWISE_TRY(openGroup());
  if (matched_ == group_count_) return Status::success();
  const int index = match(tag);
  if (index < 0) return idle(Waiting::kPeer);
  RAILWISE_TRY(checkSize(bytes, window_->ring[next_number_ % kSlots][index]));
  Request* made = requests_.take();
  if (made == nullptr) return idle(Waiting::kAcknowledgement);
  made->connection = this;
  made->kind = Request::Kind::kSend;
  made->done = false;
  made->count = 1;
  made->sizes[0] = static_cast<uint32_t>(bytes);
  pending_[index] = {made, address, memory != nullptr ? memory->keys[0].local : 0,
                     static_cast<uint32_t>(bytes)};
  *request = made;
  return ++matched_ == group_count_ ? postGroup() : Status::success();
}

// Posts the group whose sends are all there; leaves it for the next poll when the send queue has no room.
Status SendConnection::postGroup() {
  const auto slot = static_cast<uint32_t>(next_number_ % kSlots);
  const bool sizes_in_record = group_count_ > 1 || pending_[0].bytes >= kImmediateSizeLimit;
  uint32_t needed = sizes_in_record ? 1 : 0;
  for (int i = 0; i < group_count_; ++i) needed += pieces(pending_[i].bytes);
  needed = std::max(needed, 1U);
  if (needed > send_queue_free_) [[unlikely]] {
    RAILWISE_TRY(drain());
    if (needed > send_queue_free_) return Status::success();
  }
  Group& group = groups_[slot];
  if (group.count != 0) [[unlikely]]
    RAILWISE_TRY(drain());  // this slot's last turn: arrived, not yet acknowledged
  if (group.count != 0) return Status::success();
  group.count = static_cast<uint8_t>(group_count_);
  group.work_requests = static_cast<uint16_t>(needed);
  send_queue_free_ -= needed;
  for (int i = 0; i < group_count_; ++i) {
    group.requests[i] = pending_[i].request;
    window_->sizes[slot][i] = pending_[i].bytes;
    RAILWISE_TRY(appendMessage(pending_[i], window_->ring[slot][i], !sizes_in_record, slot));
  }
  if (sizes_in_record) RAILWISE_TRY(appendSizes(slot));
  ++next_number_;
  group_count_ = 0;
  matched_ = 0;
  return postChain();
}

// One message in as many pieces as the ports' limit asks for. `last`: the final piece carries the immediate.
Status SendConnection::appendMessage(const Pending& pending, const ClearToSend& entry, bool last,
                                     uint32_t slot) {
  uint32_t sent = 0;
  do {
    if (pending.bytes == 0 && !last) return Status::success();
    if (chain_length_ == kChain) RAILWISE_TRY(postChain());
    ibv_send_wr& work = nextWorkRequest(entry.address + sent, entry.remote_key);
    const uint32_t piece = std::min(pending.bytes - sent, piece_bytes_);
    *work.sg_list = {pending.address + sent, piece, pending.local_key};
    work.num_sge = piece > 0 ? 1 : 0;
    sent += piece;
    if (last && sent == pending.bytes) addImmediate(work, immediate(slot, pending.bytes), slot);
  } while (sent < pending.bytes);
  return Status::success();
}

Status SendConnection::appendSizes(uint32_t slot) {
  if (chain_length_ == kChain) RAILWISE_TRY(postChain());
  ibv_send_wr& work = nextWorkRequest(peer_window_ + slot * sizeof(SlotSizes), peer_window_key_);
  const auto bytes = static_cast<uint32_t>(sizeof(uint32_t) * static_cast<unsigned>(group_count_));
  *work.sg_list = {reinterpret_cast<uint64_t>(window_->sizes[slot]), bytes, pages_.localKey()};
  work.num_sge = 1;
  if (bytes <= inline_bytes_) work.send_flags = IBV_SEND_INLINE;
  addImmediate(work, kSizesInRecord | immediate(slot, 0), slot);
  return Status::success();
}

ibv_send_wr& SendConnection::nextWorkRequest(uint64_t remote_address, uint32_t remote_key) {
  ibv_send_wr& work = chain_[chain_length_++];
  work.opcode = IBV_WR_RDMA_WRITE;
  work.send_flags = 0;
  work.wr.rdma.remote_addr = remote_address;
  work.wr.rdma.rkey = remote_key;
  return work;
}

void SendConnection::addImmediate(ibv_send_wr& work_request, uint32_t value, uint32_t slot) {
  work_request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  work_request.send_flags |= IBV_SEND_SIGNALED;
  work_request.imm_data = htonl(value);
  work_request.wr_id = slot;
}

// The chain is linked for good; while it is posted it ends at its last work request.
Status SendConnection::postChain() {
  ibv_send_wr& last = chain_[chain_length_ - 1];
  ibv_send_wr* const next = std::exchange(last.next, nullptr);
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_.get(), chain_.data(), &bad);
  last.next = next;
  chain_length_ = 0;
  if (error == 0) [[likely]]
    return Status::success();
  return failPost("ibv_post_send", error);
}

// What has completed is reported although the connection failed meanwhile.
Result<bool> SendConnection::progress(const Request& request) {
  if (request.done) return true;
  RAILWISE_TRY(failure_);
  const Status drained = drain();
  if (request.done) return true;
  RAILWISE_TRY(drained);
  if (groupWaits()) [[unlikely]]
    RAILWISE_TRY(postGroup());
  RAILWISE_TRY(idle(Waiting::kAcknowledgement));
  return false;
}

Status SendConnection::drain() {
  ibv_wc completions[kPollBatch];
  const int count = ibv_poll_cq(cq_.get(), kPollBatch, completions);
  for (int i = 0; i < count; ++i) {
    if (completions[i].status != IBV_WC_SUCCESS) [[unlikely]]
      return failCompletion(completions[i], "a send");
    Group& group = groups_[completions[i].wr_id % kSlots];
    send_queue_free_ += group.work_requests;
    for (int r = 0; r < group.count; ++r) group.requests[r]->done = true;
    group.count = 0;
  }
  if (count < 0) [[unlikely]]
    return fail({Code::kSystem, 0}, "ibv_poll_cq failed");
  return Status::success();
}

void SendConnection::release(Request& request) {
  request.kind = Request::Kind::kFree;
  requests_.give(&request);
}

// ---- receiver

Status ReceiveConnection::postReceives() {
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp_.get(), receive_chain_.data(), &bad);
  if (error == 0) [[likely]]
    return Status::success();
  return failPost("ibv_post_recv", error);
}

Status ReceiveConnection::irecv(std::span<const ReceiveBuffer> buffers, Request** request) {
  *request = nullptr;
  if (!failure_.ok()) return failure_;
  const auto slot = static_cast<uint32_t>(next_number_ % kSlots);
  Request& made = requests_[slot];
  if (made.kind != Request::Kind::kFree) return Status::success();
  if (clear_to_send_free_ == 0) [[unlikely]] {
    RAILWISE_TRY(poll());
    if (clear_to_send_free_ == 0) return idle(Waiting::kPeer);
  }
  const auto count = static_cast<int>(buffers.size());
  for (int i = 0; i < count; ++i) {
    const ReceiveBuffer& buffer = buffers[i];
    window_->staging[slot][i] = {buffer.address, buffer.memory != nullptr ? buffer.memory->keys[0].remote : 0,
                                 static_cast<uint32_t>(buffer.tag), buffer.bytes,
                                 makeStamp(next_number_, count)};
    room_[slot][i] = static_cast<uint32_t>(std::min<std::size_t>(buffer.bytes, kMaxMessageBytes));
  }
  made.connection = this;
  made.kind = Request::Kind::kReceive;
  made.done = false;
  made.count = static_cast<uint8_t>(count);
  RAILWISE_TRY(postClearToSend(slot, count));
  ++next_number_;
  *request = &made;
  return Status::success();
}

Status ReceiveConnection::postClearToSend(uint32_t slot, int count) {
  const auto bytes = static_cast<uint32_t>(sizeof(ClearToSend) * static_cast<unsigned>(count));
  ibv_sge segment = {reinterpret_cast<uint64_t>(window_->staging[slot]), bytes, pages_.localKey()};
  ibv_send_wr work = {};
  work.sg_list = &segment;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.wr.rdma.remote_addr = peer_window_ + slot * sizeof(SlotEntries);
  work.wr.rdma.rkey = peer_window_key_;
  if (bytes <= inline_bytes_) work.send_flags |= IBV_SEND_INLINE;
  --clear_to_send_free_;
  work.wr_id = uint64_t{kClearToSendWork} << 32;  // also of the unsignalled: errors are reported for all
  if (++unsignalled_ == kClearToSendSignal) {
    work.send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = 0;
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_.get(), &work, &bad);
  if (error == 0) [[likely]]
    return Status::success();
  return failPost("ibv_post_send", error);
}

Status ReceiveConnection::iflush(uint64_t address, const MemoryHandle& memory, Request** request) {
  *request = nullptr;
  RAILWISE_TRY(flush_failure_);
  if (flush_qp_ == nullptr) [[unlikely]]
    RAILWISE_TRY(openFlushQueuePair());
  Request* made = flushes_.take();
  if (made == nullptr) {  // there is no "try later" for a flush
    return fail({Code::kInternal, 0},
                "more than " + std::to_string(kOutstandingFlushes) + " flushes outstanding");
  }
  made->connection = this;
  made->kind = Request::Kind::kFlush;
  made->done = false;
  made->count = 0;
  ibv_sge segment = {reinterpret_cast<uint64_t>(&window_->flush_target), 1, pages_.localKey()};
  ibv_send_wr work = {};
  work.wr_id = uint64_t{kFlushWork} << 32 | flushes_.indexOf(made);
  work.sg_list = &segment;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_READ;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = address;
  work.wr.rdma.rkey = memory.keys[0].remote;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(flush_qp_.get(), &work, &bad);
  if (error != 0) return flush_failure_ = failPost("ibv_post_send", error);
  *request = made;
  return Status::success();
}

// A flush needs the NIC, not the peer: neither the peer's leaving nor the connection's failure ends it.
Result<bool> ReceiveConnection::progress(const Request& request) {
  if (request.done) return true;
  const bool flush = request.kind == Request::Kind::kFlush;
  if (!flush) RAILWISE_TRY(failure_);
  const Status polled = poll();
  if (request.done) return true;
  RAILWISE_TRY(flush ? flush_failure_ : polled);
  if (!flush) RAILWISE_TRY(idle(Waiting::kPeer));
  return false;
}

Status ReceiveConnection::poll() {
  ibv_wc completions[kPollBatch];
  const int count = ibv_poll_cq(cq_.get(), kPollBatch, completions);
  for (int i = 0; i < count; ++i) onCompletion(completions[i]);
  if (count < 0) [[unlikely]]
    flush_failure_ = fail({Code::kSystem, 0}, "ibv_poll_cq failed");
  return failure_;
}

void ReceiveConnection::onCompletion(const ibv_wc& completion) {
  const uint64_t kind = completion.wr_id >> 32;
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
    const bool flush = kind == kFlushWork;
    const Status failed = failCompletion(completion, flush               ? "a flush"
                                                     : kind == kDataWork ? "a receive"
                                                                         : "a clear-to-send");
    if (flush) flush_failure_ = failed;
  } else if (kind == kDataWork) [[likely]] {
    (void)onData(completion);  // a failure is remembered
  } else if (kind == kClearToSendWork) {
    clear_to_send_free_ += kClearToSendSignal;
  } else {
    flushes_[completion.wr_id & 0xffffffff].done = true;
  }
}

Status ReceiveConnection::onData(const ibv_wc& completion) {
  const uint32_t value = ntohl(completion.imm_data);
  const uint32_t slot = immediateSlot(value);
  Request& request = requests_[slot];
  if (slot != (completed_number_ + 1) % kSlots || request.kind != Request::Kind::kReceive || request.done)
      [[unlikely]] {
    return fail({Code::kRemote, 0}, "data for receive slot " + std::to_string(slot) + ", which is not open");
  }
  ++completed_number_;
  const bool in_record = (value & kSizesInRecord) != 0;
  for (int i = 0; i < request.count; ++i) {
    request.sizes[i] = in_record ? window_->records[slot][i] : immediateSize(value);
    if (request.sizes[i] > room_[slot][i]) [[unlikely]] {
      return fail({Code::kRemote, 0}, "the peer reports a message longer than its buffer: " +
                                          sizeText(request.sizes[i], room_[slot][i]));
    }
  }
  request.done = true;
  if (++consumed_ < kReplenish) return Status::success();
  consumed_ = 0;
  return postReceives();
}

void ReceiveConnection::release(Request& request) {
  const bool flush = request.kind == Request::Kind::kFlush;
  request.kind = Request::Kind::kFree;
  if (flush) flushes_.give(&request);
}

}  // namespace railwise::net
