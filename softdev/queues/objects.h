// The verbs objects of this process. Each object begins with its ibv_ struct, so that the caller's pointer
// points to the object. The functions of softdev.h make and destroy them. Parents outlive children:
// destroying a parent earlier gives EBUSY.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "softdev/config/config.h"
#include "softdev/config/limits.h"
#include "softdev/fabric/doorbell.h"
#include "softdev/fabric/fabric.h"
#include "softdev/fabric/segment.h"
#include "softdev/fabric/shared_lock.h"
#include "softdev/queues/injection.h"
#include "softdev/queues/random.h"
#include "softdev/softdev.h"

namespace railwise::softdev {

class BackingFile;
class PeerMemory;
class SendBuilder;
class VmBatch;
struct Context;
struct Cq;
struct Qp;
struct Srq;

struct Device : ibv_device {
  DeviceConfig config;
  FabricChoice fabric;
  std::string host;
  uint64_t seed = 1;
  std::vector<std::string> faults;
};

struct Pd : ibv_pd {
  uint32_t id = 0;  // unique on the fabric
  std::atomic<int> users{0};
};

struct Mr : ibv_mr {
  uint32_t index = 0;
  std::shared_ptr<BackingFile> backing;  // set if peers can map the region
  void* mapping = nullptr;               // the mapping of a dma-buf region
  size_t mapping_bytes = 0;
};

// The fd of a completion channel is a doorbell: a socket that other processes ring (doorbell.h).
struct Channel : ibv_comp_channel {
  Doorbell bell;
  std::mutex mutex;      // guards `cqs` and `next`
  std::vector<Cq*> cqs;  // the CQs that report to this channel
  size_t next = 0;       // index into `cqs` of the CQ to look at first
};

// A completion as the functions of ibv_cq_ex read it.
struct Polled {
  ibv_wc wc{};
  uint64_t stamp_ns = 0;
};

struct Cq : ibv_cq_ex {
  Fabric* fabric = nullptr;
  CqRecord* record = nullptr;
  uint32_t index = 0;
  SpinLock poll_lock;
  std::atomic<int> users{0};
  std::atomic<int> parked{0};  // number of QPs with parked sends whose completions go to this CQ
  // Events that the application has read. The mutex of ibv_cq guards these counts and the counts of
  // acknowledged events.
  uint32_t comp_events_read = 0;
  uint32_t async_events_read = 0;
  Polled polled;  // the completion that ibv_next_poll has taken; guarded by poll_lock
};

struct Srq : ibv_srq {
  Fabric* fabric = nullptr;
  SrqRecord* record = nullptr;
  uint32_t index = 0;
  uint32_t max_wr = 0;
  uint32_t max_sge = 0;
  SpinLock post_lock;
  std::atomic<int> users{0};
  uint32_t events_read = 0;  // events that the application has read; guarded by the mutex of ibv_srq
};

struct Ah : ibv_ah {
  ibv_ah_attr attr{};
};
// Are the port, the GID index and the kind of addressing valid for the device?
bool validAddress(const Context& context, const ibv_ah_attr& address);

// A send in the form that execution needs, resolved from its ibv_send_wr. Points to the SGEs of the caller or
// of a ParkedWork.
struct Work {
  uint64_t wr_id = 0;
  const ibv_sge* sges = nullptr;
  int num_sge = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  bool signalled = false;
  bool inlined = false;
  bool solicited = false;
  uint32_t imm_data = 0;
  uint32_t rkey = 0;
  uint64_t remote_addr = 0;
  uint64_t compare_add = 0;  // for atomic operations
  uint64_t swap = 0;
  const Ah* ah = nullptr;  // for datagrams
  uint32_t remote_qpn = 0;
  uint32_t remote_qkey = 0;
  uint64_t length = 0;   // bytes
  uint64_t retires = 0;  // number of sends posted up to this one, inclusive
};

// A send that waits, with its own copy of all data that it needs.
struct ParkedWork {
  Work work;
  std::vector<ibv_sge> sges;
  std::vector<std::byte> payload;  // for an inline send
  Injection injection;
  uint64_t parked_ns = 0;  // when it was parked, in the time model
};

// When the READs and atomics of a QP are answered, in the time model. They are answered in order.
class FetchWindow {
 public:
  FetchWindow() = default;
  // `next`: the number of the first fetch, so that a test begins a little below the wrap.
  explicit FetchWindow(uint32_t next) : next_(next) {}
  // The fetches that are not answered at `at_ns`.
  uint32_t outstanding(uint64_t at_ns) const {
    uint32_t count = 0;
    while (count < kMaxRdAtomic && answered_ns_[(next_ - 1 - count) % kMaxRdAtomic] > at_ns) ++count;
    return count;
  }
  // When fewer than `most` are outstanding.
  uint64_t opensAt(uint32_t most) const { return answered_ns_[(next_ - most) % kMaxRdAtomic]; }
  void add(uint64_t answered_ns) { answered_ns_[next_++ % kMaxRdAtomic] = answered_ns; }

 private:
  uint64_t answered_ns_[kMaxRdAtomic] = {};
  uint32_t next_ = 0;
};
static_assert((kMaxRdAtomic & (kMaxRdAtomic - 1)) == 0, "FetchWindow::next_ wraps");

// Why the first parked send waits, and until when.
struct Wait {
  enum class Reason { kNone, kNoReceive, kUnreachable };
  Reason reason = Reason::kNone;
  bool forever = false;
  Clock::time_point deadline;
};

// Why the sends of a QP must take the slow path (bits of Qp::special).
enum Special : uint32_t {
  kSpecialType = 1,       // the QP is not RC
  kSpecialTime = 2,       // completions may be polled only later
  kSpecialPlacement = 4,  // bytes become visible in random order
  kSpecialIwarp = 8,      // iWARP has other rules (verbs/iwarp.h)
};

// The connection as it was when it was verified. Valid while the epoch of the peer is unchanged.
struct Peer {
  QpRecord* record = nullptr;
  uint64_t epoch = ~uint64_t{0};  // the initial value, which no record reaches, means: not verified yet
  uint32_t token = 0;             // token of the peer's process
  bool local = false;             // the peer is in this process
};

// The caller's pointer points to `qp_base`. Programs built with newer headers may know more functions of
// ibv_qp_ex than our headers have. newer_functions is room for these; it is filled with functions that fail.
struct Qp : ibv_qp_ex {
  void* newer_functions[8] = {};
  // Fields that the data path reads.
  Fabric* fabric = nullptr;
  QpRecord* record = nullptr;
  CqRecord* send_cq_record = nullptr;
  uint32_t index = 0;
  uint32_t pd_id = 0;
  uint16_t lid = 0;
  bool signal_all = false;
  uint32_t special = 0;  // bits of Special: features that the fast path cannot handle
  ibv_qp_cap cap{};
  SpinLock sq_lock;  // guards sq_posted, peer, batch, parked, wait and the send counters
  SpinLock rq_lock;  // guards the producer side of the receive queue
  uint64_t sq_posted = 0;
  uint64_t max_message_bytes = 0;
  uint64_t packet_bytes = 0;  // payload of a packet: the MTU of the path; 0 until that is set
  uint64_t sent_packets = 0;  // packets of the requests that have left since RESET (engine/packets.h)
  bool atomics = true;        // the device supports atomic operations
  bool iwarp = false;
  Peer peer;
  std::unique_ptr<VmBatch> batch;  // made when the peer is another process
  std::unique_ptr<PeerMemory> peer_memory;
  std::deque<ParkedWork> parked;
  std::vector<ParkedWork> held;  // iWARP: writes that are completed here and not yet placed at the peer
  std::unique_ptr<SendBuilder> builder;  // for a QP with send operations
  Wait wait;
  Random random;               // for adversarial placement
  uint64_t last_ready_ns = 0;  // when the QP's last completion may be polled, in the time model
  FetchWindow fetches;
  uint64_t begin_ns = 0;    // when the send that is being executed begins, in the time model; 0: now
  uint64_t resumed_ns = 0;  // when the last send that had been parked began, in the time model
  // Engine mode: a call that posts touches only these fields, so that it never waits for a copy.
  bool engine = false;
  // In engine mode, guards sq_posted and the counters of posting; taken before sq_lock or without it.
  SpinLock inbox_lock;
  std::deque<ParkedWork> inbox;
  bool waiting = false;     // the QP is in the list of progress.h; the mutex there guards this field
  bool draining = false;    // the QP is in SQD, and a send that had begun is not complete
  uint64_t drained_at = 0;  // in SQD, sends up to this number are executed
  // Used only for set-up, under sq_lock.
  ibv_qp_attr attr{};
  uint32_t ece_wanted = 0;  // ECE options that were set or offered
  uint32_t ece_agreed = 0;  // ECE options that a query returns
  Context* owner = nullptr;
  uint32_t events_read = 0;  // events that the application has read; guarded by the mutex of ibv_qp

  ibv_qp_state currentState() const {
    return static_cast<ibv_qp_state>(record->state.load(std::memory_order_seq_cst));
  }
  ~Qp();
};

// The caller's pointer points to `context`, the last member of verbs_context.
struct Context : verbs_context {
  Device* config_device = nullptr;
  Fabric* fabric = nullptr;
  ContextRecord* record = nullptr;
  uint32_t index = 0;
  Doorbell events;  // rung for asynchronous events; its fd is async_fd
  std::atomic<int> pds{0};
  std::atomic<int> mrs{0};
  mutable std::mutex objects;  // guards the lists
  std::vector<Qp*> qps;
  std::vector<Cq*> cqs;
  std::vector<Srq*> srqs;
  std::vector<Channel*> channels;
};

// Converts the caller's pointer to our object.
template <typename Object, typename Base>
Object& as(Base* base) {
  if constexpr (std::is_same_v<Object, Context>) {
    auto* bytes = reinterpret_cast<std::byte*>(base) - offsetof(verbs_context, context);
    return *static_cast<Context*>(reinterpret_cast<verbs_context*>(bytes));
  } else if constexpr (std::is_same_v<Object, Cq>) {
    // ibv_cq_ex begins with the fields of ibv_cq.
    return *static_cast<Cq*>(reinterpret_cast<ibv_cq_ex*>(base));
  } else if constexpr (std::is_same_v<Object, Qp>) {
    // ibv_qp_ex begins with the fields of ibv_qp.
    return *static_cast<Qp*>(reinterpret_cast<ibv_qp_ex*>(base));
  } else {
    return *static_cast<Object*>(base);
  }
}

}  // namespace railwise::softdev
