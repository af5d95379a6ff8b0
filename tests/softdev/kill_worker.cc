#include "softdev/kill_worker.h"

#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <stdexcept>

#include "softdev/fabric/monotonic.h"
#include "softdev/queues/objects.h"
#include "softdev/queues/responder.h"

namespace railwise::softdev::test {
namespace {

constexpr uint64_t kPatternAt = 0;  // the buffer: what the peer reads,
constexpr uint64_t kSourceAt = 4096;
constexpr uint64_t kTargetAt = 16384;
constexpr uint64_t kReceiveAt = 32768;
constexpr uint64_t kReadAt = 49152;
constexpr uint64_t kCounterAt = 61440;  // of the peer's atomic operations
constexpr uint32_t kSlotBytes = 512;
constexpr uint32_t kSlots = 16;
constexpr uint64_t kReceiveId = uint64_t{1} << 63;

constexpr uint64_t mix(uint64_t value) {
  value = (value ^ value >> 31) * 0x9e3779b97f4a7c15ULL;
  return value ^ value >> 29;
}

// One connection and what is known of it.
class Line {
 public:
  Line(ibv_context* context, Memory memory) : end_(context, optionsOf(memory)) {
    for (uint64_t i = 0; i < kSourceAt / 8; ++i) *end_.word(kPatternAt + 8 * i) = mix(i);
  }

  Address address() const { return end_.address(); }
  void connect(const Address& peer) { end_.connect(peer); }
  bool drained() const { return sends_ == 0 && receives_ == 0; }
  bool lost() const { return send_failed_ || complaint_[0] != 0; }
  bool idle() const { return sends_ == 0; }
  uint32_t nextArrival() { return static_cast<uint32_t>(++arrivals_sent_); }
  int64_t firstErrorNs() const { return first_error_ns_; }
  uint64_t completions() const { return completions_; }
  const char* firstError() const { return first_error_; }
  const char* complaint() const { return complaint_; }
  Endpoint& end() { return end_; }

  void step(std::mt19937_64& random) {
    if (!lost()) {
      if (random() % 8 != 0) postReceives();  // now and then the peer must wait for one
      if (sends_ < kSlots) post(random);
    }
    ibv_wc wc{};
    for (int polled = end_.poll(&wc); polled != 0; polled = end_.poll(&wc)) {
      if (polled < 0) return complain("the completion queue is in error");
      take(wc);
    }
  }

 private:
  static Options optionsOf(Memory memory) {
    Options options{.memory = memory, .cqe = 256, .max_send_wr = kSlots, .max_recv_wr = kSlots};
    options.mr_access |= IBV_ACCESS_REMOTE_ATOMIC;
    options.qp_access |= IBV_ACCESS_REMOTE_ATOMIC;
    options.timeout = 15;
    options.retry_cnt = 7;
    return options;
  }

  void postReceives() {
    for (; receives_ < kSlots; ++receives_) {
      const uint64_t slot = receives_posted_++ % kSlots;
      if (end_.receive(kReceiveId | receives_posted_, kReceiveAt + slot * kSlotBytes, kSlotBytes) != 0)
        return complain("ibv_post_recv failed");
    }
  }

  void post(std::mt19937_64& random) {
    constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                          IBV_WR_SEND,       IBV_WR_SEND_WITH_IMM,
                                          IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_FETCH_AND_ADD};
    const ibv_wr_opcode opcode = kOpcodes[random() % std::size(kOpcodes)];
    const uint64_t id = ++sends_posted_;
    const uint64_t slot = id % kSlots;
    Send send{.opcode = opcode, .wr_id = id};
    send.length = static_cast<uint32_t>(8 * (1 + random() % (kSlotBytes / 8)));
    send.offset = kSourceAt + slot * kSlotBytes;
    send.remote_offset = kTargetAt + slot * kSlotBytes;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      send.length = 8;
      send.offset = kReadAt + slot * kSlotBytes;
      send.remote_offset = kCounterAt;
      added_[slot] = adds_++;
    } else if (opcode == IBV_WR_RDMA_READ) {
      send.offset = kReadAt + slot * kSlotBytes;
      send.remote_offset = kPatternAt + slot * 64;
      std::memset(end_.word(send.offset), 0, kSlotBytes);
    } else if (opcode != IBV_WR_RDMA_WRITE) {
      send.imm = nextArrival();
      for (uint64_t i = 0; i < send.length / 8; ++i) *end_.word(send.offset + 8 * i) = mix(send.imm + i);
    }
    lengths_[slot] = send.length;
    opcodes_[slot] = opcode;
    ibv_sge sge;
    ibv_send_wr wr;
    ibv_send_wr* bad = nullptr;
    end_.fill(send, &wr, &sge);
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic.remote_addr = end_.peer.memory + send.remote_offset;
      wr.wr.atomic.rkey = end_.peer.rkey;
      wr.wr.atomic.compare_add = 1;
    }
    if (ibv_post_send(end_.qp, &wr, &bad) != 0) return complain("ibv_post_send failed");
    ++sends_;
  }

  void take(const ibv_wc& wc) {
    ++completions_;
    if ((wc.wr_id & kReceiveId) != 0) {
      takeReceive(wc);
    } else {
      takeSend(wc);
    }
    if (wc.status == IBV_WC_SUCCESS || first_error_ns_ != 0) return;
    first_error_ns_ = static_cast<int64_t>(monotonicNs());
    std::snprintf(first_error_, sizeof first_error_, "%s %llu: %s",
                  (wc.wr_id & kReceiveId) != 0 ? "receive" : "send",
                  static_cast<unsigned long long>(wc.wr_id & ~kReceiveId), wcStatusStr(wc.status));
  }

  void takeReceive(const ibv_wc& wc) {
    const uint64_t id = wc.wr_id ^ kReceiveId;
    if (id != ++receives_done_) return complain("receive %lu completed, %lu expected", id, receives_done_);
    --receives_;
    if (wc.status == IBV_WC_WR_FLUSH_ERR) return;
    if (wc.status != IBV_WC_SUCCESS) return complain("a receive failed: %s", wcStatusStr(wc.status));
    const auto number = static_cast<uint32_t>(++arrivals_);
    if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0 && wc.imm_data != number)
      return complain("arrival %u told as %u", number, wc.imm_data);
    if (wc.opcode == IBV_WC_RECV) check(kReceiveAt + (id - 1) % kSlots * kSlotBytes, wc.byte_len, number);
  }

  void takeSend(const ibv_wc& wc) {
    if (wc.wr_id != ++sends_done_) return complain("send %lu completed, %lu expected", wc.wr_id, sends_done_);
    --sends_;
    if (wc.status == IBV_WC_SUCCESS) {
      if (send_failed_) return complain("a send succeeded after one failed");
      const uint64_t slot = wc.wr_id % kSlots;
      if (opcodes_[slot] == IBV_WR_RDMA_READ) check(kReadAt + slot * kSlotBytes, lengths_[slot], slot * 8);
      if (opcodes_[slot] == IBV_WR_ATOMIC_FETCH_AND_ADD &&
          *end_.word(kReadAt + slot * kSlotBytes) != added_[slot])
        return complain("atomic operation %lu found %lu", added_[slot],
                        *end_.word(kReadAt + slot * kSlotBytes));
    } else if (wc.status != (send_failed_ ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR)) {
      return complain("%s send failed with %s", send_failed_ ? "a later" : "the first",
                      wcStatusStr(wc.status));
    } else {
      send_failed_ = true;
    }
  }

  void check(uint64_t offset, uint64_t bytes, uint64_t first) {
    for (uint64_t i = 0; i < bytes / 8; ++i) {
      if (*end_.word(offset + 8 * i) != mix(first + i)) return complain("wrong bytes in message %lu", first);
    }
  }

  [[gnu::format(printf, 2, 3)]] void complain(const char* format, ...) {
    if (first_error_ns_ == 0) first_error_ns_ = static_cast<int64_t>(monotonicNs());
    if (complaint_[0] != 0) return;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(complaint_, sizeof complaint_, format, arguments);
    va_end(arguments);
  }

  Endpoint end_;
  uint32_t sends_ = 0;  // posted, not completed
  uint32_t receives_ = 0;
  uint64_t sends_posted_ = 0, sends_done_ = 0, receives_posted_ = 0, receives_done_ = 0;
  uint64_t arrivals_sent_ = 0, arrivals_ = 0;
  uint64_t completions_ = 0;
  bool send_failed_ = false;
  int64_t first_error_ns_ = 0;
  uint64_t adds_ = 0;
  std::array<uint64_t, kSlots> added_{};
  std::array<uint32_t, kSlots> lengths_{};
  std::array<ibv_wr_opcode, kSlots> opcodes_{};
  char complaint_[200] = {};
  char first_error_[100] = {};
};

class Worker {
 public:
  explicit Worker(int fd) : fd_(fd) {}

  int run() {
    const WorkerCommand command = next();
    if (!configure(command.config).ok()) return 1;
    context_ = openNamed("");
    random_.seed(command.seed);
    for (;;) {
      makeLines();
      if (!serveOne()) return 0;
    }
  }

 private:
  WorkerCommand next() const {
    WorkerCommand command{};
    if (recv(fd_, &command, sizeof command, 0) != sizeof command) _exit(0);  // the test has ended
    return command;
  }

  void makeLines() {
    constexpr Memory kMemories[kWorkerQps] = {Memory::kHeap, Memory::kMemoryFile, Memory::kAnonymous};
    WorkerAnswer answer{};
    answer.kind = WorkerAnswer::kReady;
    for (int i = 0; i < kWorkerQps; ++i) {
      lines_[i] = std::make_unique<Line>(context_, kMemories[i]);
      answer.addresses[i] = lines_[i]->address();
    }
    tell(answer);
  }

  void tell(const WorkerAnswer& answer) const {
    if (send(fd_, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) _exit(0);
  }

  // One peer, from its address to its loss; false when the test wants us to leave.
  bool serveOne() {
    WorkerCommand command = next();
    if (command.kind == WorkerCommand::kLeave) return leave();
    for (int i = 0; i < kWorkerQps; ++i) lines_[i]->connect(command.peers[i]);
    WorkerAnswer answer{};
    answer.kind = WorkerAnswer::kConnected;
    tell(answer);
    command = next();
    if (command.kind == WorkerCommand::kLeave) return leave();
    for (bool drained = false; !drained;) {
      drained = true;
      for (auto& line : lines_) {
        line->step(random_);
        drained = drained && line->lost() && (line->drained() || line->complaint()[0] != 0);
      }
      if (random_() % 16 == 0) churn();
      obey();
      if (random_() % 32 == 0) sched_yield();
    }
    report();
    return true;
  }

  void report() {
    WorkerAnswer answer{};
    answer.kind = WorkerAnswer::kLost;
    for (auto& line : lines_) {
      answer.completions += line->completions();
      if (answer.first_error_ns == 0 || line->firstErrorNs() < answer.first_error_ns) {
        answer.first_error_ns = line->firstErrorNs();
        std::memcpy(answer.first_error, line->firstError(), sizeof answer.first_error);
      }
      if (answer.complaint[0] == 0) std::memcpy(answer.complaint, line->complaint(), sizeof answer.complaint);
      line = nullptr;
    }
    tell(answer);
  }

  bool leave() {
    for (auto& line : lines_) line = nullptr;
    closeDevice(context_);
    return false;
  }

  // What a killed process may be in the middle of.
  void churn() {
    if (random_() % 2 == 0) {
      Buffer buffer(1 << 14, random_() % 2 == 0 ? Memory::kMemoryFile : Memory::kHeap);
      ibv_mr* mr = regMr(lines_[0]->end().pd, buffer.data(), buffer.size(), IBV_ACCESS_LOCAL_WRITE);
      if (mr != nullptr) deregMr(mr);
    } else {
      Line line(context_, Memory::kHeap);
    }
  }

  void obey() {
    WorkerCommand command{};
    if (recv(fd_, &command, sizeof command, MSG_DONTWAIT) != sizeof command) return;
    if (command.kind == WorkerCommand::kDieHolding) dieHolding(command.lock);
  }

  [[noreturn]] void dieHolding(WorkerLock lock) {
    Line& line = *lines_[random_() % kWorkerQps];
    Endpoint& end = line.end();
    Fabric& fabric = *as<Context>(context_).fabric;
    Segment& segment = *fabric.segment;
    QpRecord& peer = segment.qps[qpIndexOf(end.peer.qp_num)];
    switch (lock) {
      case WorkerLock::kTables:
        segment.tables.lock(fabric.self);
        break;
      case WorkerLock::kOwnCq:
        as<Cq>(end.cq).record->lock.lock(fabric.self);
        break;
      case WorkerLock::kPeerCq:
        segment.cqs[peer.recv_cq].lock.lock(fabric.self);
        break;
      case WorkerLock::kPeerReceive: {  // a receive completed and not yet consumed
        if (peer.responder.lock(fabric.self)) recoverResponder(fabric, peer);
        if (!line.idle() || peer.qp_num.load() != end.peer.qp_num || receivesPosted(peer) == 0) break;
        const uint64_t head = peer.rq_head;
        Arrival arrival;
        arrival.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
        arrival.has_imm = true;
        arrival.imm_data = line.nextArrival();
        completeReceive(fabric, peer, arrival);
        peer.rq_head = head;
        break;
      }
      default:
        peer.responder.lock(fabric.self);
        break;
    }
    raise(SIGKILL);
    _exit(1);
  }

  int fd_;
  ibv_context* context_ = nullptr;
  std::mt19937_64 random_;
  std::array<std::unique_ptr<Line>, kWorkerQps> lines_;
};

}  // namespace

int runWorker(int fd) { return Worker(fd).run(); }

}  // namespace railwise::softdev::test
