// The verbs objects of this process. Each begins with its ibv_ struct, so that the caller's pointer is the
// object. Made and destroyed by the functions of softdev.h; parents outlive children (EBUSY otherwise).
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
  std::string fabric;
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
  std::shared_ptr<BackingFile> backing;  // when peers can map it
  void* mapping = nullptr;               // of a dma-buf region
  size_t mapping_bytes = 0;
};

// The fd of a completion channel is a doorbell: a socket that other processes ring (doorbell.h).
struct Channel : ibv_comp_channel {
  Doorbell bell;
  std::mutex mutex;      // guards what follows
  std::vector<Cq*> cqs;  // that report here
  size_t next = 0;       // of `cqs`, to be looked at first
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
  std::atomic<int> parked{0};  // QPs with sends parked whose completions come here
  // Events given to the application; guarded by ibv_cq's mutex, as the counts of those acknowledged are.
  uint32_t comp_events_read = 0;
  uint32_t async_events_read = 0;
  Polled polled;  // by ibv_next_poll; guarded by poll_lock
};

struct Srq : ibv_srq {
  Fabric* fabric = nullptr;
  SrqRecord* record = nullptr;
  uint32_t index = 0;
  uint32_t max_wr = 0;
  uint32_t max_sge = 0;
  SpinLock post_lock;
  std::atomic<int> users{0};
  uint32_t events_read = 0;  // by the application; guarded by ibv_srq's mutex
};

struct Ah : ibv_ah {
  ibv_ah_attr attr{};
};
// Whether the port, the GID's index and the way of addressing are right for the device.
bool validAddress(const Context& context, const ibv_ah_attr& address);

// A send, resolved from its ibv_send_wr: what execution needs. Points to the caller's (or a ParkedWork's)
// SGEs.
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
  uint64_t compare_add = 0;  // of atomic operations
  uint64_t swap = 0;
  const Ah* ah = nullptr;  // of datagrams
  uint32_t remote_qpn = 0;
  uint32_t remote_qkey = 0;
  uint64_t length = 0;   // bytes
  uint64_t retires = 0;  // sends posted up to this one, itself included
};

// A send that waits, with its own copy of all it needs.
struct ParkedWork {
  Work work;
  std::vector<ibv_sge> sges;
  std::vector<std::byte> payload;  // of an inline send
  Injection injection;
};

// Why the first parked send waits, and until when.
struct Wait {
  enum class Reason { kNone, kNoReceive, kUnreachable };
  Reason reason = Reason::kNone;
  bool forever = false;
  Clock::time_point deadline;
};

// Why the sends of a QP must go the long way (Qp::special).
enum Special : uint32_t {
  kSpecialType = 1,       // not RC
  kSpecialTime = 2,       // completions become ready later
  kSpecialPlacement = 4,  // bytes become visible in random order
  kSpecialIwarp = 8,      // the rules of iWARP (verbs/iwarp.h)
};

// What the connection looked like when it was verified; valid while the peer's epoch is the same.
struct Peer {
  QpRecord* record = nullptr;
  uint64_t epoch = ~uint64_t{0};  // which no record reaches: not verified yet
  uint32_t token = 0;             // of its process
  bool local = false;             // in this process
};

// Callers hold `qp_base`. Programs built with newer headers may know more functions of ibv_qp_ex than ours:
// room for them, filled with functions that fail.
struct Qp : ibv_qp_ex {
  void* newer_functions[8] = {};
  // Read on the data path.
  Fabric* fabric = nullptr;
  QpRecord* record = nullptr;
  CqRecord* send_cq_record = nullptr;
  uint32_t index = 0;
  uint32_t pd_id = 0;
  uint16_t lid = 0;
  bool signal_all = false;
  uint32_t special = 0;  // Special: what the short way cannot do
  ibv_qp_cap cap{};
  SpinLock sq_lock;  // owns sq_posted, peer, batch, parked, wait and the send counters
  SpinLock rq_lock;  // owns the producer side of the receive queue
  uint64_t sq_posted = 0;
  uint64_t max_message_bytes = 0;
  bool atomics = true;  // the device does them
  bool iwarp = false;
  Peer peer;
  std::unique_ptr<VmBatch> batch;  // made when the peer is another process
  std::unique_ptr<PeerMemory> peer_memory;
  std::deque<ParkedWork> parked;
  std::vector<ParkedWork> held;          // writes of iWARP that are completed here and not yet placed there
  std::unique_ptr<SendBuilder> builder;  // of a QP with send operations
  Wait wait;
  Random random;               // of adversarial placement
  uint64_t last_ready_ns = 0;  // of its completions, in the time model
  // Engine mode: posting touches only these, so that it never waits for a copy.
  bool engine = false;
  SpinLock inbox_lock;  // owns sq_posted and the counters of posting then; taken before or without sq_lock
  std::deque<ParkedWork> inbox;
  bool waiting = false;     // in the list of progress.h, whose mutex guards it
  bool draining = false;    // in SQD, and the send that had begun is not over
  uint64_t drained_at = 0;  // sends up to this one are executed in SQD
  // Set-up only, under sq_lock.
  ibv_qp_attr attr{};
  uint32_t ece_wanted = 0;  // options: as set or offered
  uint32_t ece_agreed = 0;  // what a query tells
  Context* owner = nullptr;
  uint32_t events_read = 0;  // by the application; guarded by ibv_qp's mutex

  ibv_qp_state currentState() const {
    return static_cast<ibv_qp_state>(record->state.load(std::memory_order_seq_cst));
  }
  ~Qp();
};

// Callers hold `context`, the last member of verbs_context.
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

// Our object behind the caller's pointer.
template <typename Object, typename Base>
Object& as(Base* base) {
  if constexpr (std::is_same_v<Object, Context>) {
    auto* bytes = reinterpret_cast<std::byte*>(base) - offsetof(verbs_context, context);
    return *static_cast<Context*>(reinterpret_cast<verbs_context*>(bytes));
  } else if constexpr (std::is_same_v<Object, Cq>) {
    return *static_cast<Cq*>(reinterpret_cast<ibv_cq_ex*>(base));  // ibv_cq is how ibv_cq_ex begins
  } else if constexpr (std::is_same_v<Object, Qp>) {
    return *static_cast<Qp*>(reinterpret_cast<ibv_qp_ex*>(base));  // ibv_qp is how ibv_qp_ex begins
  } else {
    return *static_cast<Object*>(base);
  }
}

}  // namespace railwise::softdev
