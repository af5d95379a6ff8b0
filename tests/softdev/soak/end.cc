#include "softdev/soak/end.h"

#include <cstring>

namespace railwise::softdev::soak {
namespace {

constexpr int kAddressMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kSendMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

uint64_t addressOf(const std::byte* memory) { return reinterpret_cast<uint64_t>(memory); }

uint64_t libraryPattern(uint32_t end) { return 0x1234567ULL * (end + 1); }

}  // namespace

uint64_t End::memoryBytes(uint32_t slot_bytes) {
  return uint64_t{slot_bytes} * (3 * kMaxOps + 2 + kReceives);
}

End::End(const Resources& resources, uint32_t index, std::byte* memory, uint32_t slot_bytes)
    : r_(resources),
      index_(index),
      memory_(memory),
      slot_bytes_(slot_bytes),
      random_(resources.settings->seed + index) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = r_.cq;
  init.cap = {kSends, kReceives, 4, 4, 64};
  init.qp_type = IBV_QPT_RC;
  qp_ = createQp(r_.pd, &init);
  if (qp_ == nullptr) throw Wrong{std::string("create_qp: ") + std::strerror(errno)};
  shape_ = {slot_bytes, 64, r_.settings->atomics};
  fillPattern(library(), libraryPattern(index), 0, slot_bytes);
  startGeneration();
}

End::~End() { destroyQp(qp_); }

void End::check(bool right, const std::string& what) const {
  if (right) return;
  throw Wrong{"end " + std::to_string(index_) + " generation " + std::to_string(generation_) + " round " +
              std::to_string(round_) + " peer round " + std::to_string(peer_round_) + ": " + what};
}

uint64_t End::peerAddress(const std::byte* mine) const {
  return peer().address + static_cast<uint64_t>(mine - memory_);
}

void End::modify(ibv_qp_attr& attr, int mask, const char* what) {
  const int error = modifyQp(qp_, &attr, mask);
  check(error == 0, std::string("modify to ") + what + ": " + std::strerror(error));
}

// A clean start: everything posted is completed, the QP is in RESET or just made.
void End::startGeneration() {
  const uint32_t peer_wants = peer().wanted.load();
  generation_ = std::max({generation_ + 1, peer_wants, mine().wanted.load()});
  mine().wanted.store(generation_);
  broken_ = send_failed_ = in_round_ = acknowledged_ = ack_due_ = false;
  round_ = peer_round_ = 0;
  expected_.clear();
  next_expected_ = 0;
  atomic_model_ = 0;
  posted_.clear();
  receives_.clear();
  held_.clear();
  std::fill(memory_, library(), kCanary);
  std::fill(receiveSlot(0), receiveSlot(kReceives), kCanary);
  *atomicWord() = 0;
  toInit();
  for (uint32_t slot = 0; slot < kReceives; ++slot) {
    if (random_.below(4) == 0) {
      held_.push_back(slot);  // the peer's first sends may find too few receives
    } else {
      postReceive(slot);
    }
  }
  EndControl& control = mine();
  ibv_port_attr port{};
  check(queryPort(r_.context, 1, &port) == 0, "query_port");
  check(queryGid(r_.context, 1, 0, &control.gid) == 0, "query_gid");
  control.qp_num = qp_->qp_num;
  control.rkey = r_.mr->rkey;
  control.address = addressOf(memory_);
  control.lid = port.lid;
  control.ready.store(generation_, std::memory_order_release);
  state_ = State::kAddressing;
}

void End::toInit() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  modify(attr, IBV_QP_STATE, "RESET");
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (shape_.atomics) attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
  modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
}

// False while the peer is not at our generation.
bool End::connectToPeer() {
  if (peer().wanted.load() > generation_) {
    startGeneration();
    return true;
  }
  if (peer().ready.load(std::memory_order_acquire) != generation_) return false;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_4096;
  attr.dest_qp_num = peer().qp_num;
  attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 1;
  attr.ah_attr.dlid = peer().lid;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.dgid = peer().gid;
  attr.ah_attr.grh.hop_limit = 1;
  attr.ah_attr.port_num = 1;
  modify(attr, kAddressMask, "RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;  // 67 ms, eight times
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 16;
  modify(attr, kSendMask, "RTS");
  state_ = State::kRunning;
  mine().connected.store(generation_, std::memory_order_release);
  return true;
}

void End::breakDown() {
  state_ = State::kDraining;
  mine().wanted.store(std::max(mine().wanted.load(), generation_ + 1));
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  modify(attr, IBV_QP_STATE, "ERR");
  r_.report->reconnects.fetch_add(1);
}

// Every posted request completes before the next generation.
bool End::drain() {
  if (!posted_.empty() || !receives_.empty()) return false;
  startGeneration();
  return true;
}

bool End::step() {
  if (state_ == State::kDraining) return drain();
  if (state_ == State::kAddressing) return connectToPeer();
  if (broken_ || peer().wanted.load() > generation_) {
    breakDown();
    return true;
  }
  bool moved = false;
  if (!held_.empty()) {
    postReceive(held_.front());
    held_.pop_front();
    moved = true;
  }
  if (ack_due_ && posted_.size() < kSends) {
    ack_due_ = false;
    Op ack;
    ack.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    ack.imm = kImmAck | (peer_round_ & 0xffffff);
    ack.signalled = true;
    post(ack, 0, true);
    ++peer_round_;
    moved = true;
  }
  if (!in_round_ && peer().connected.load(std::memory_order_acquire) == generation_ &&
      posted_.size() + kMaxOps <= kSends - 1 && r_.control->over.load() == 0) {
    startRound();
    moved = true;
  }
  return moved;
}

void End::postReceive(uint32_t slot) {
  std::byte* memory = receiveSlot(slot);
  const uint32_t first = static_cast<uint32_t>(random_.below(slot_bytes_));
  ibv_sge sges[2] = {{addressOf(memory), first, r_.mr->lkey},
                     {addressOf(memory + first), slot_bytes_ - first, r_.mr->lkey}};
  ibv_recv_wr wr{};
  wr.wr_id = uint64_t{slot} << 32 | 1;
  wr.sg_list = sges;
  wr.num_sge = 2;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp_, &wr, &bad);
  check(error == 0, std::string("post_recv: ") + std::strerror(error));
  receives_.push_back(slot);
}

void End::startRound() {
  in_round_ = true;
  acknowledged_ = false;
  const std::vector<Op> ops = planRound(r_.settings->seed, index_, generation_, round_, shape_);
  for (uint32_t i = 0; i < ops.size(); ++i) post(ops[i], i, false);
}

void End::post(const Op& op, uint32_t slot, bool ack) {
  std::byte* local = outbox(slot) + op.offset;
  if (op.opcode == IBV_WR_RDMA_READ || isAtomic(op.opcode)) local = result(slot);
  if (op.opcode <= IBV_WR_SEND_WITH_IMM) fillPattern(local, op.pattern, 0, op.length);
  ibv_sge sges[4] = {};
  uint32_t done = 0;
  for (int i = 0; i < op.sges; ++i) {
    const uint32_t rest = op.length - done;
    const uint32_t length = i + 1 == op.sges ? rest : static_cast<uint32_t>(random_.below(rest + 1));
    sges[i] = {addressOf(local + done), length, r_.mr->lkey};
    done += length;
  }
  ibv_send_wr wr{};
  wr.wr_id = ++next_wr_id_ << 1;
  wr.sg_list = sges;
  wr.num_sge = op.length == 0 ? 0 : op.sges;
  wr.opcode = op.opcode;
  wr.imm_data = op.imm;
  if (op.signalled) wr.send_flags |= IBV_SEND_SIGNALED;
  if (op.inlined) wr.send_flags |= IBV_SEND_INLINE;
  if (op.fenced) wr.send_flags |= IBV_SEND_FENCE;
  if (isAtomic(op.opcode)) {
    wr.wr.atomic.remote_addr = peerAddress(reinterpret_cast<std::byte*>(atomicWord()));
    wr.wr.atomic.rkey = peer().rkey;
    wr.wr.atomic.compare_add = op.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? op.operand : atomic_model_;
    wr.wr.atomic.swap = op.operand;
  } else {
    const std::byte* target = op.opcode == IBV_WR_RDMA_READ ? library() : inbox(slot);
    wr.wr.rdma.remote_addr = peerAddress(target) + op.offset;
    wr.wr.rdma.rkey = peer().rkey;
  }
  Posted posted{wr.wr_id, op, ack, slot};
  if (isAtomic(op.opcode)) {
    posted.op.pattern = atomic_model_;  // what it must return
    atomic_model_ = op.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? atomic_model_ + op.operand : op.operand;
  }
  posted_.push_back(posted);
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_, &wr, &bad);
  check(error == 0, std::string("post_send: ") + std::strerror(error));
  if (op.inlined) std::fill(local, local + op.length, kCanary);  // ours again
  r_.report->operations.fetch_add(1, std::memory_order_relaxed);
  r_.report->bytes.fetch_add(op.length, std::memory_order_relaxed);
}

void End::complete(const ibv_wc& wc) {
  r_.report->statuses[wc.status & 31].fetch_add(1, std::memory_order_relaxed);
  if ((wc.wr_id & 1) != 0) {
    completeReceive(wc);
  } else {
    completeSend(wc);
  }
}

void End::completeSend(const ibv_wc& wc) {
  check(!posted_.empty(), "a completion of a send, and none is posted");
  if (wc.status == IBV_WC_SUCCESS) {
    check(!send_failed_, "success after an error");
    // The unsignalled ones before it are done too.
    while (posted_.front().wr_id != wc.wr_id) {
      check(!posted_.front().op.signalled, "a signalled send was passed over");
      posted_.pop_front();
      check(!posted_.empty(), "a completion of a send that was not posted");
    }
    const Posted posted = posted_.front();
    posted_.pop_front();
    check(posted.op.signalled, "a success of an unsignalled send");
    check(!posted.op.length || wc.opcode != IBV_WC_RDMA_READ || wc.byte_len == posted.op.length, "byte_len");
    checkResult(posted);
    const bool last = !posted.ack && (posted.op.imm & kImmKind) == kImmEnd && hasImm(posted.op.opcode);
    if (last) {
      round_ += acknowledged_ ? 1 : 0;
      in_round_ = !acknowledged_;
      acknowledged_ = true;  // half of the way: the other half is the peer's word, or this completion
    }
    return;
  }
  const bool flushed = wc.status == IBV_WC_WR_FLUSH_ERR;
  check(flushed || !send_failed_, std::string("after an error: ") + wcStatusStr(wc.status));
  check(flushed || r_.settings->faults, std::string("an error without faults: ") + wcStatusStr(wc.status));
  // Unsignalled sends before the first that fails were executed.
  while (!send_failed_ && !posted_.empty() && posted_.front().wr_id != wc.wr_id) {
    check(!posted_.front().op.signalled, "a signalled send was passed over by an error");
    posted_.pop_front();
  }
  check(!posted_.empty() && posted_.front().wr_id == wc.wr_id, "an error out of order");
  posted_.pop_front();
  broken_ = send_failed_ = true;
}

void End::checkResult(const Posted& posted) {
  const Op& op = posted.op;
  std::byte* memory = result(posted.slot);
  if (isAtomic(op.opcode)) {
    uint64_t before = 0;
    std::memcpy(&before, memory, sizeof before);
    check(before == op.pattern,
          "an atomic returned " + std::to_string(before) + " instead of " + std::to_string(op.pattern));
  } else if (op.opcode == IBV_WR_RDMA_READ) {
    check(hasPattern(memory, libraryPattern(index_ ^ 1), op.offset, op.length), "wrong bytes read");
    check(isCanary(memory + op.length, slot_bytes_ - op.length), "a read wrote behind its end");
  } else {
    return;
  }
  std::fill(memory, memory + op.length, kCanary);
}

void End::completeReceive(const ibv_wc& wc) {
  check(!receives_.empty(), "a completion of a receive, and none is posted");
  const auto slot = static_cast<uint32_t>(wc.wr_id >> 32);
  check(receives_.front() == slot, "receives out of order");
  receives_.pop_front();
  if (wc.status != IBV_WC_SUCCESS) {
    const bool first = !broken_ && wc.status != IBV_WC_WR_FLUSH_ERR;
    check(!first || r_.settings->faults, std::string("a receive failed: ") + wcStatusStr(wc.status));
    if (state_ == State::kRunning) broken_ = true;
    return;
  }
  std::byte* memory = receiveSlot(slot);
  const bool with_imm = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
  if (with_imm && (wc.imm_data & kImmKind) == kImmAck) {
    check(wc.byte_len == 0 && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM, "a strange acknowledgement");
    check((wc.imm_data & 0xffffff) == (round_ & 0xffffff) && in_round_,
          "an acknowledgement of another round");
    round_ += acknowledged_ ? 1 : 0;
    in_round_ = !acknowledged_;
    acknowledged_ = true;
  } else {
    if (expected_.empty()) {
      expected_ = planRound(r_.settings->seed, index_ ^ 1, generation_, peer_round_, shape_);
      next_expected_ = 0;
    }
    while (next_expected_ < expected_.size() && !consumesReceive(expected_[next_expected_].opcode))
      ++next_expected_;
    check(next_expected_ < expected_.size(), "more messages than sent");
    const Op& op = expected_[next_expected_++];
    check(with_imm == hasImm(op.opcode), "immediate data");
    check(!with_imm || wc.imm_data == op.imm, "wrong immediate data");
    check(wc.byte_len == op.length, "wrong length of a message");
    check(wc.opcode == (isSend(op.opcode) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM), "wrong opcode");
    if (isSend(op.opcode)) {
      check(hasPattern(memory, op.pattern, 0, op.length), "wrong bytes received");
      check(isCanary(memory + op.length, slot_bytes_ - op.length), "a send wrote behind its end");
      std::fill(memory, memory + op.length, kCanary);
    }
    if (next_expected_ == expected_.size()) checkRound();
  }
  check(isCanary(memory, slot_bytes_), "a receive that took no bytes was written to");
  if (state_ != State::kRunning) return;
  if (random_.below(4) == 0) {
    held_.push_back(slot);
  } else {
    postReceive(slot);
  }
}

// The round's last message has come: all its writes are there.
void End::checkRound() {
  for (uint32_t i = 0; i < expected_.size(); ++i) {
    const Op& op = expected_[i];
    if (op.opcode != IBV_WR_RDMA_WRITE && op.opcode != IBV_WR_RDMA_WRITE_WITH_IMM) continue;
    std::byte* memory = inbox(i);
    check(isCanary(memory, op.offset), "a write before its start");
    check(hasPattern(memory + op.offset, op.pattern, 0, op.length), "wrong bytes written");
    check(isCanary(memory + op.offset + op.length, slot_bytes_ - op.offset - op.length),
          "a write behind its end");
    std::fill(memory + op.offset, memory + op.offset + op.length, kCanary);
  }
  expected_.clear();
  ack_due_ = true;
  r_.report->rounds.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace railwise::softdev::soak
