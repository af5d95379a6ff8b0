// Layout of the shared segment: plain tables of fixed size in one sparse memory file; only touched pages cost
// memory. A zeroed segment is a valid empty one. A record belongs to a process while its `owner` holds that
// process's token; each table entry is published by that one store, so that a process may die at any
// instruction: whoever finds it dead frees what carries its token (queues/reclaim.h). Change kLayoutVersion
// with any change here.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "softdev/config/limits.h"
#include "softdev/fabric/fault_table.h"
#include "softdev/fabric/process_table.h"
#include "softdev/fabric/shared_lock.h"

namespace railwise::softdev {

constexpr uint64_t kMagic = 0x3165736977'6c6961ULL;
constexpr uint32_t kLayoutVersion = 8;

constexpr uint32_t kMaxPorts = 4096;  // distinct port GUIDs ever seen on a fabric: LIDs 1..4096
constexpr uint32_t kMaxContexts = 4096;
constexpr uint32_t kMaxQps = 32768;  // index: low 16 bits of a QP number, the 8 above are its generation
constexpr uint32_t kMaxCqs = 32768;
constexpr uint32_t kMaxSrqs = 4096;
constexpr uint32_t kMaxMrs =
    1U << 18;                        // index: high 24 bits of a key, the low 8 change at every registration
constexpr uint32_t kMaxEvents = 64;  // asynchronous events of one context that nobody has read yet
constexpr uint32_t kPageBytes = 4096;
constexpr uint32_t kWordLocks = kPageBytes / 8;  // of atomic operations
constexpr uint32_t kArenaPages = 1U << 20;

struct Sge {
  uint64_t address;
  uint32_t length;
  uint32_t lkey;
};

// A posted receive. `sges` follow it in the ring.
struct ReceiveEntry {
  uint64_t wr_id;
  uint32_t num_sge;
  uint32_t reserved;
  Sge* sges() { return reinterpret_cast<Sge*>(this + 1); }
  const Sge* sges() const { return reinterpret_cast<const Sge*>(this + 1); }
};
static_assert(sizeof(ReceiveEntry) == 16 && sizeof(Sge) == 16);

// kVoid: taken out of turn, or its QP is gone; polling skips it.
enum class CqeKind : uint8_t { kSend, kReceive, kVoid };

constexpr uint8_t kSolicited = 0x80;  // the sender asked for an event; no flag of verbs has this bit

struct alignas(64) Cqe {
  uint64_t wr_id;
  uint64_t retires;   // polling it frees the queue slots below this count
  uint64_t ready_ns;  // CLOCK_MONOTONIC; not to be polled before. 0: at once
  uint64_t stamp_ns;  // CLOCK_MONOTONIC of the completion, where the CQ asks for it
  uint32_t byte_len;
  uint32_t imm_data;  // network order, as posted; the invalidated key of a send with invalidate
  uint32_t qp_num;
  uint32_t src_qp;
  uint16_t qp_index;
  uint16_t slid;
  uint8_t status;
  uint8_t opcode;
  uint8_t wc_flags;  // ibv_wc_flags, and kSolicited
  CqeKind kind;
  uint8_t sl;
  uint8_t dlid_path_bits;
};
static_assert(sizeof(Cqe) == 64 && kMaxQps <= 0x10000);

// A port as its whole fabric sees it: made by the first context that opens it, changed by faults (faults.h)
// while contexts have it open. Fields below `guid` change under the table lock; `changes` grows with each.
struct alignas(64) PortRecord {
  std::atomic<uint64_t> guid;   // 0: free. LID = index + 1
  std::atomic<uint32_t> state;  // ibv_port_state
  std::atomic<uint32_t> speed_mbps;
  std::atomic<uint32_t> latency_ns;
  std::atomic<uint32_t> paced;  // 1: speed and latency are kept to
  std::atomic<uint32_t> gid_count;
  uint32_t link_layer;
  uint32_t iwarp;      // 1: the connection manager knows it by `addresses`, not by its GIDs
  uint32_t pcie_link;  // 1 + index of the port that keeps the clock of the PCIe link; 0: a link of its own
  std::atomic<uint32_t> pcie_mbps;  // 0: no limit
  uint8_t number;                   // of the device's ports, from 1
  char device[64];
  char host[64];
  char pcie_name[32];
  Gid gids[kMaxGids];
  std::atomic<uint32_t> address_count;
  Gid addresses[kMaxGids];
  // GIDs (of iWARP: addresses) as its configuration has them, which faults do not change.
  uint32_t configured_count;
  Gid configured[kMaxGids];
  // The time model: when the port (each direction) and the PCIe link are free again, CLOCK_MONOTONIC ns.
  alignas(64) std::atomic<uint64_t> out_free_ns;
  std::atomic<uint64_t> in_free_ns;
  std::atomic<uint64_t> pcie_out_free_ns;
  std::atomic<uint64_t> pcie_in_free_ns;
};

// A counter with one writer at a time (its owner's lock); readers see it whole.
class Counter {
 public:
  [[gnu::always_inline]] void add(uint64_t n) { value_.store(value() + n, std::memory_order_relaxed); }
  [[gnu::always_inline]] uint64_t value() const { return value_.load(std::memory_order_relaxed); }
  Counter& operator=(uint64_t n) {
    value_.store(n, std::memory_order_relaxed);
    return *this;
  }

 private:
  std::atomic<uint64_t> value_;
};

// What softdev::Counters counts, by queue.
struct WorkCounters {
  Counter posts, writes, writes_with_imm, reads, sends, atomics, sges, inlined, signalled, bytes,
      system_calls, receives, receive_posts;
  void clear();
  void add(const WorkCounters& other);
};
struct PollCounters {
  Counter polls, completions;         // polls that returned something
  std::atomic<uint64_t> empty_polls;  // counted without a lock
  void clear();
};

// An asynchronous event on its way to the application.
struct EventRecord {
  uint32_t type;     // ibv_event_type
  uint32_t element;  // index of the QP, CQ or SRQ, or the port number
};

struct alignas(64) ContextRecord {
  std::atomic<uint32_t> owner;
  uint32_t port_count;
  uint32_t ports[kMaxDevicePorts];  // indices of PortRecord
  std::atomic<uint32_t> fatal;      // the device has failed
  uint32_t doorbell;                // rung for its asynchronous events (doorbell.h)
  char device[64];
  SharedLock events_lock;
  std::atomic<uint32_t> events_head, events_tail;
  EventRecord events[kMaxEvents];
  // Of destroyed objects.
  WorkCounters retired_work[kMaxDevicePorts];
  PollCounters retired_polls;
};

struct alignas(64) MrRecord {
  std::atomic<uint32_t> owner;
  std::atomic<uint32_t> key;  // 0: no region. Readers check it before and after the fields below
  std::atomic<uint32_t> pd;
  std::atomic<uint32_t> access;
  std::atomic<uint64_t> iova;
  std::atomic<uint64_t> address;
  std::atomic<uint64_t> length;
  std::atomic<uint32_t> key_byte;  // of the next registration in this record
  // What peers can map instead of being copied to (shared_memory.h): the file descriptor in the owner, plus
  // one, and where in that file the region begins. 0: private memory.
  std::atomic<uint32_t> backing_fd;
  std::atomic<uint64_t> backing_offset;
  std::atomic<uint64_t> backing_file;  // fileIdentity() of it
};
static_assert(sizeof(MrRecord) == 64);

struct alignas(64) CqRecord {
  std::atomic<uint32_t> owner;
  uint32_t context;
  uint32_t capacity;            // power of two
  uint32_t channel;             // doorbell of the completion channel, 0: none (doorbell.h)
  uint64_t ring;                // arena offset of `capacity` Cqe
  uint32_t stamped;             // 1: completions carry the time
  std::atomic<uint32_t> timed;  // 1: some completions were to be polled only later
  uint32_t ignore_overrun;      // 1: completions without room are lost, and the CQ stays good
  // Any process that completes something pushes, under `lock`; `tail` is the publishing store.
  alignas(64) SharedLock lock;
  std::atomic<uint32_t> overflowed;
  std::atomic<uint64_t> tail;
  std::atomic<uint32_t> armed;   // CqArmed; the pusher that finds it set clears it and rings
  std::atomic<uint32_t> events;  // completion events that nobody has got yet
  // The owner polls.
  alignas(64) std::atomic<uint64_t> head;
  PollCounters counters;
};
enum CqArmed : uint32_t { kNotArmed, kArmed, kArmedSolicited };

// A shared receive queue. Whoever sends to a QP that has it takes receives, under `lock`.
struct alignas(64) SrqRecord {
  std::atomic<uint32_t> owner;
  uint32_t context;
  uint32_t pd;
  uint32_t slots;  // power of two
  uint32_t stride_bytes;
  uint64_t ring;  // arena offset
  alignas(64) SharedLock lock;
  std::atomic<uint64_t> head;              // receives taken
  uint32_t claim_qp;                       // that is being given a receive, 0: none
  uint64_t claim_head;                     // of the SRQ, before
  uint64_t claim_tail;                     // of the QP, after
  std::atomic<uint32_t> limit;             // IBV_EVENT_SRQ_LIMIT_REACHED when fewer are left; 0: off
  alignas(64) std::atomic<uint64_t> tail;  // receives posted
  Counter receives, receive_posts;
};

struct alignas(64) QpRecord {
  std::atomic<uint32_t> owner;
  std::atomic<uint32_t> qp_num;  // 0 when free
  uint32_t generation;           // of the next QP in this record
  uint32_t type;                 // ibv_qp_type
  uint32_t context;
  uint32_t port;  // index of its PortRecord, from INIT on
  uint32_t pd;
  uint32_t send_cq;
  uint32_t recv_cq;
  uint32_t srq;       // index, 0: a receive queue of its own
  uint32_t rq_slots;  // power of two
  uint32_t rq_stride_bytes;
  uint64_t rq;  // arena offset
  // The responder: whoever sends to this QP works under `responder`, and so does a change of state.
  alignas(64) SharedLock responder;
  std::atomic<uint32_t> state;  // ibv_qp_state
  uint64_t epoch;               // grows with each change that may break a connection; never reset
  uint64_t rq_head;             // receives consumed
  uint32_t access;              // qp_access_flags
  uint32_t dest_qp_num;
  std::atomic<uint32_t> min_rnr_timer;  // code of the InfiniBand table
  uint32_t max_dest_rd_atomic;
  uint32_t global_path;  // 1: its answers go to `dgid`
  uint8_t dgid[16];
  uint32_t qkey;
  uint64_t last_ready_ns;  // of its receives' completions, in the time model
  // The owner.
  alignas(64) std::atomic<uint64_t> rq_tail;  // receives posted
  std::atomic<uint64_t> rq_polled;            // receives whose completion was polled
  std::atomic<uint64_t> sq_polled;            // sends whose slot a polled completion freed
  alignas(64) WorkCounters counters;
};

// Requests to the agent of the process in this slot (agent.h). The poster holds `lock`.
constexpr uint32_t kAgentPieces = 64;
constexpr uint64_t kAgentBounceBytes = 256 * 1024;
struct AgentPiece {
  uint64_t address;  // in the agent's process
  uint64_t length;
};
enum AgentClaim : uint32_t { kOffered, kTaken, kWithdrawn };
struct alignas(64) AgentRecord {
  SharedLock lock;
  std::atomic<uint32_t> ready;   // token of the process whose agent serves; another: none
  std::atomic<uint32_t> wanted;  // token of the process that is asked to start one
  std::atomic<uint32_t> posted;  // requests
  std::atomic<uint32_t> done;    // of them; a futex
  std::atomic<uint32_t> claim;   // AgentClaim of the last request: the agent takes it, or the poster back
  uint32_t doorbell;
  uint64_t bounce;  // arena offset of kAgentBounceBytes
  uint32_t write;   // 1: from the bounce pages to the process
  uint32_t count;   // of pieces, copied in this order
  uint32_t error;   // answer: errno
  uint64_t moved;   // answer: bytes
  AgentPiece pieces[kAgentPieces];
};

struct TableMarks {
  uint32_t first_free;  // no free entry lies below
  uint32_t high_water;  // no used entry lies at or above
};

struct Segment {
  std::atomic<uint64_t> magic;
  uint32_t layout_version;
  uint32_t reserved;
  uint64_t total_bytes;
  uint64_t identity;  // random: two processes with the same one are on one fabric
  // Everything below is allocated and freed under `tables`.
  alignas(64) SharedLock tables;
  std::atomic<uint32_t> next_pd;
  TableMarks contexts_marks, qps_marks, cqs_marks, srqs_marks, mrs_marks, pages_marks;
  SharedLock words[kWordLocks];  // each for the words at one place in any page (atomics.h)
  ProcessSlot processes[kMaxProcesses];
  AgentRecord agents[kMaxProcesses];
  PortRecord ports[kMaxPorts];
  ContextRecord contexts[kMaxContexts];
  QpRecord qps[kMaxQps];
  CqRecord cqs[kMaxCqs];
  SrqRecord srqs[kMaxSrqs];
  MrRecord mrs[kMaxMrs];
  FaultTable faults;
  std::atomic<uint32_t> page_owners[kArenaPages];
};

// After the tables: pages for the rings of completion and receive queues.
constexpr size_t kArenaOffset = (sizeof(Segment) + kPageBytes - 1) / kPageBytes * kPageBytes;
constexpr size_t kSegmentBytes = kArenaOffset + size_t{kArenaPages} * kPageBytes;

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);
static_assert(kMaxQps <= 0x10000 && kMaxMrs <= 0x1000000);

template <typename T>
T* arenaAt(Segment& segment, uint64_t offset) {
  return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(&segment) + kArenaOffset + offset);
}

inline Cqe& cqeAt(Segment& segment, const CqRecord& cq, uint64_t position) {
  return arenaAt<Cqe>(segment, cq.ring)[position & (cq.capacity - 1)];
}

inline ReceiveEntry& receiveAt(Segment& segment, const QpRecord& qp, uint64_t position) {
  return *arenaAt<ReceiveEntry>(segment, qp.rq + (position & (qp.rq_slots - 1)) * qp.rq_stride_bytes);
}
inline ReceiveEntry& receiveAt(Segment& segment, const SrqRecord& srq, uint64_t position) {
  return *arenaAt<ReceiveEntry>(segment, srq.ring + (position & (srq.slots - 1)) * srq.stride_bytes);
}

constexpr uint32_t qpIndexOf(uint32_t qp_num) { return qp_num & 0xffff; }

}  // namespace railwise::softdev
