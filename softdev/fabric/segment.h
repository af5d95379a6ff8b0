// Layout of the shared segment: plain tables of fixed size in one sparse memory file, in which only touched
// pages cost memory. A zeroed segment is a valid empty one. A record belongs to a process while its `owner`
// holds the token of that process. This one store publishes a table entry, so that a process may die at any
// instruction: any process that finds it dead frees all records with its token (queues/reclaim.h). Change
// kLayoutVersion with every change here.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "softdev/config/limits.h"
#include "softdev/fabric/fault_table.h"
#include "softdev/fabric/joining/process_table.h"
#include "softdev/fabric/shared_lock.h"

namespace railwise::softdev {

constexpr uint64_t kMagic = 0x3165736977'6c6961ULL;
constexpr uint32_t kLayoutVersion = 13;

constexpr uint32_t kMaxPorts = 4096;  // distinct port GUIDs that a fabric may ever see: LIDs 1..4096
constexpr uint32_t kMaxContexts = 4096;
// The index is the low 16 bits of a QP number; the 8 bits above are the generation.
constexpr uint32_t kMaxQps = 32768;
constexpr uint32_t kMaxCqs = 32768;
constexpr uint32_t kMaxSrqs = 4096;
// The index is the high 24 bits of a key; the low 8 bits change with each registration.
constexpr uint32_t kMaxMrs = 1U << 18;
constexpr uint32_t kMaxEvents = 64;  // asynchronous events of one context that nobody has read yet
constexpr uint32_t kPageBytes = 4096;
constexpr uint32_t kWordLocks = kPageBytes / 8;  // locks of atomic operations
constexpr uint32_t kArenaPages = 1U << 20;

struct Sge {
  uint64_t address;
  uint32_t length;
  uint32_t lkey;
};

// A posted receive. Its `sges` follow it in the ring.
struct ReceiveEntry {
  uint64_t wr_id;
  uint32_t num_sge;
  uint32_t reserved;
  Sge* sges() { return reinterpret_cast<Sge*>(this + 1); }
  const Sge* sges() const { return reinterpret_cast<const Sge*>(this + 1); }
};
static_assert(sizeof(ReceiveEntry) == 16 && sizeof(Sge) == 16);

// kVoid: polled out of turn, or the QP is gone. Polling skips it.
enum class CqeKind : uint8_t { kSend, kReceive, kVoid };

// In Cqe::wc_flags: the sender requested an event; no flag of verbs has this bit.
constexpr uint8_t kSolicited = 0x80;

struct alignas(64) Cqe {
  uint64_t wr_id;
  uint64_t retires;   // polling this entry frees the queue slots below this count
  uint64_t ready_ns;  // CLOCK_MONOTONIC; before this time polling does not see the entry. 0: at once
  uint64_t stamp_ns;  // CLOCK_MONOTONIC of the completion, if the CQ has timestamps
  uint32_t byte_len;
  uint32_t imm_data;  // network order, as posted; after a send with invalidate, the invalidated key
  uint32_t qp_num;
  uint32_t src_qp;
  uint16_t qp_index;
  uint16_t slid;
  uint8_t status;
  uint8_t opcode;
  uint8_t wc_flags;  // ibv_wc_flags and kSolicited
  CqeKind kind;
  uint8_t sl;
  uint8_t dlid_path_bits;
};
static_assert(sizeof(Cqe) == 64 && kMaxQps <= 0x10000);

// A port as the whole fabric sees it. The first context that opens the port makes the record; faults change
// it (faults.h) while contexts have the port open. Fields below `guid` change under the table lock, except
// for the clocks at the end.
struct alignas(64) PortRecord {
  std::atomic<uint64_t> guid;   // 0: free. LID = index + 1
  std::atomic<uint32_t> state;  // ibv_port_state
  std::atomic<uint32_t> speed_mbps;
  std::atomic<uint32_t> latency_ns;
  std::atomic<uint32_t> paced;  // 1: the port keeps to its speed and latency
  std::atomic<uint32_t> gid_count;
  uint32_t link_layer;
  uint32_t iwarp;  // 1: the connection manager knows the port by `addresses`, not by its GIDs
  // 1 + index of the port whose record has the clock of the PCIe link; 0: the port has a link of its own.
  uint32_t pcie_link;
  std::atomic<uint32_t> pcie_mbps;  // 0: no limit
  uint8_t number;                   // number among the ports of the device, from 1
  char device[64];
  char host[64];
  char pcie_name[32];
  Gid gids[kMaxGids];
  std::atomic<uint32_t> address_count;
  Gid addresses[kMaxGids];
  // GIDs (on iWARP: addresses) from the configuration. Faults do not change these.
  uint32_t configured_count;
  Gid configured[kMaxGids];
  // The time model: when each direction of the port and of the PCIe link is free again, CLOCK_MONOTONIC ns.
  alignas(64) std::atomic<uint64_t> out_free_ns;
  std::atomic<uint64_t> in_free_ns;
  std::atomic<uint64_t> pcie_out_free_ns;
  std::atomic<uint64_t> pcie_in_free_ns;
};

// A counter with one writer at a time (the holder of the owner's lock). Readers see it whole.
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

// The part of softdev::Counters that work queues count. `more_sges`: the SGEs of all sends, less one for each
// send (modulo 2^64). So a send of one SGE, which is nearly every send, counts none.
struct WorkCounters {
  Counter posts, writes, writes_with_imm, reads, sends, atomics, more_sges, inlined, signalled, bytes,
      system_calls, receives, receive_posts;
  void clear();
  void add(const WorkCounters& other);
};
struct PollCounters {
  Counter polls, completions;         // `polls`: only those that returned something
  std::atomic<uint64_t> empty_polls;  // counted without a lock
  void clear();
};

// An asynchronous event on its way to the application.
struct EventRecord {
  uint32_t type;     // value of ibv_event_type
  uint32_t element;  // index of the QP, CQ or SRQ, or the port number
};

struct alignas(64) ContextRecord {
  std::atomic<uint32_t> owner;
  uint32_t port_count;
  uint32_t ports[kMaxDevicePorts];  // indices of PortRecord
  std::atomic<uint32_t> fatal;      // 1: the device has failed
  uint32_t doorbell;                // the doorbell that announces asynchronous events (doorbell.h)
  char device[64];
  SharedLock events_lock;
  std::atomic<uint32_t> events_head, events_tail;
  EventRecord events[kMaxEvents];
  // Counts of destroyed objects.
  WorkCounters retired_work[kMaxDevicePorts];
  PollCounters retired_polls;
};

struct alignas(64) MrRecord {
  std::atomic<uint32_t> owner;
  // 0: no region. Readers check the key before and after they read the fields below. The owner clears the
  // key, stores the fields with release order, so that no field is seen before the cleared key, and stores
  // the key.
  std::atomic<uint32_t> key;
  std::atomic<uint32_t> pd;
  std::atomic<uint32_t> access;
  std::atomic<uint64_t> iova;
  std::atomic<uint64_t> address;
  std::atomic<uint64_t> length;
  std::atomic<uint32_t> key_byte;  // low byte of the key of the next registration in this record
  // The file that peers can map, instead of copying to the region by system calls (shared_memory.h): the
  // descriptor in the owner plus one, and the offset at which the region begins in that file. 0: private
  // memory.
  std::atomic<uint32_t> backing_fd;
  std::atomic<uint64_t> backing_offset;
  std::atomic<uint64_t> backing_file;  // fileIdentity() of that file
};
static_assert(sizeof(MrRecord) == 64);

struct alignas(64) CqRecord {
  std::atomic<uint32_t> owner;
  uint32_t context;
  uint32_t capacity;            // power of two
  uint32_t channel;             // doorbell of the completion channel (doorbell.h); 0: none
  uint64_t ring;                // arena offset of `capacity` entries of type Cqe
  uint32_t stamped;             // 1: completions carry a timestamp
  std::atomic<uint32_t> timed;  // 1: some completions may be polled only later
  uint32_t ignore_overrun;      // 1: completions that find no room are lost, but the CQ stays usable
  // Any process that completes a work request pushes here, under `lock`. The store to `tail` publishes the
  // entry.
  alignas(64) SharedLock lock;
  std::atomic<uint32_t> overflowed;
  std::atomic<uint64_t> tail;
  std::atomic<uint32_t> armed;   // CqArmed; a pusher that finds it set clears it and rings the doorbell
  std::atomic<uint32_t> events;  // completion events that the application has not read yet
  // Polling by the owner.
  alignas(64) std::atomic<uint64_t> head;
  PollCounters counters;
};
enum CqArmed : uint32_t { kNotArmed, kArmed, kArmedSolicited };

// A shared receive queue. A process that sends to a QP with this queue takes receives from it, under `lock`.
struct alignas(64) SrqRecord {
  std::atomic<uint32_t> owner;
  uint32_t context;
  uint32_t pd;
  uint32_t slots;  // power of two
  uint32_t stride_bytes;
  uint64_t ring;  // arena offset
  alignas(64) SharedLock lock;
  std::atomic<uint64_t> head;  // number of receives taken
  // Index of the QP that is being given a receive; 0: none. Stored after the two fields below, because the
  // process may die at any instruction.
  std::atomic<uint32_t> claim_qp;
  uint64_t claim_head;          // `head` of the SRQ before this claim
  uint64_t claim_tail;          // `rq_tail` of the QP after this claim
  std::atomic<uint32_t> limit;  // IBV_EVENT_SRQ_LIMIT_REACHED is raised when fewer receives are left; 0: off
  alignas(64) std::atomic<uint64_t> tail;  // number of receives posted
  Counter receives, receive_posts;
};

struct alignas(64) QpRecord {
  std::atomic<uint32_t> owner;
  std::atomic<uint32_t> qp_num;  // 0: the record is free
  uint32_t generation;           // generation of the next QP in this record
  uint32_t type;                 // value of ibv_qp_type
  uint32_t context;
  uint32_t port;  // index of its PortRecord; valid from INIT on
  uint32_t pd;
  uint32_t send_cq;
  uint32_t recv_cq;
  uint32_t srq;       // index; 0: the QP has a receive queue of its own
  uint32_t rq_slots;  // power of two
  uint32_t rq_stride_bytes;
  uint64_t rq;  // arena offset
  // The responder. A process that sends to this QP works under the lock `responder`; so does a change of
  // state.
  alignas(64) SharedLock responder;
  std::atomic<uint32_t> state;  // value of ibv_qp_state
  uint64_t epoch;               // grows with each change that may break a connection; never reset
  uint64_t rq_head;             // number of receives consumed
  uint32_t access;              // qp_access_flags
  uint32_t dest_qp_num;
  std::atomic<uint32_t> min_rnr_timer;  // code of the InfiniBand table
  uint32_t max_dest_rd_atomic;
  uint32_t global_path;  // 1: the answers go to `dgid`
  uint8_t dgid[16];
  uint32_t qkey;
  uint64_t last_ready_ns;  // when the completion of the last receive may be polled, in the time model
  // Packets of the requests that this queue pair has executed as a responder since RESET. Its next expected
  // PSN follows from them (engine/packets.h).
  uint64_t received_packets;
  // Fields that the owner writes.
  alignas(64) std::atomic<uint64_t> rq_tail;  // number of receives posted
  std::atomic<uint64_t> rq_polled;            // number of receives whose completion was polled
  std::atomic<uint64_t> sq_polled;            // number of sends whose slot a polled completion has freed
  alignas(64) WorkCounters counters;
};

// Requests to the agent of the process in this slot (agent.h). The process that posts a request holds `lock`.
constexpr uint32_t kAgentPieces = 64;
constexpr uint64_t kAgentBounceBytes = 256 * 1024;
struct AgentPiece {
  uint64_t address;  // in the agent's process
  uint64_t length;
};
enum AgentClaim : uint32_t { kOffered, kTaken, kWithdrawn };
struct alignas(64) AgentRecord {
  SharedLock lock;
  std::atomic<uint32_t> ready;   // token of the process whose agent serves; any other value: no agent serves
  std::atomic<uint32_t> wanted;  // token of the process that shall start an agent
  std::atomic<uint32_t> posted;  // number of requests posted
  std::atomic<uint32_t> done;    // number of requests done; a futex
  // AgentClaim of the last request: the agent takes it, or the poster withdraws it.
  std::atomic<uint32_t> claim;
  uint32_t doorbell;
  uint64_t bounce;  // arena offset of kAgentBounceBytes bytes
  uint32_t write;   // 1: the copy goes from the bounce pages to the process
  uint32_t count;   // number of pieces, copied in this order
  uint32_t error;   // answer: an errno or 0
  uint64_t moved;   // answer: number of bytes moved
  AgentPiece pieces[kAgentPieces];
};

// The process that made the fabric, for messages to those that have another configuration. Written before the
// segment's first member can be found, and never changed.
struct MakerRecord {
  uint32_t pid;
  uint32_t reserved;
  uint64_t start_time;
  uint64_t digest;
  char program[32];
  char configuration[256];
};

struct TableMarks {
  // No free entry lies below. Under the lock of the tables.
  uint32_t first_free;
  // No used entry lies at or above. It only grows; written under that lock, and read without it too.
  std::atomic<uint32_t> high_water;
};

struct Segment {
  std::atomic<uint64_t> magic;
  uint32_t layout_version;
  uint32_t reserved;
  uint64_t total_bytes;
  uint64_t fabric;    // fabricNumber() of the prefix: a forged name may lead to the segment of another fabric
  uint64_t identity;  // random; two processes that see the same identity are on one fabric
  MakerRecord maker;
  // The lock `tables` guards allocation and release of everything below.
  alignas(64) SharedLock tables;
  std::atomic<uint32_t> next_pd;
  TableMarks contexts_marks, qps_marks, cqs_marks, srqs_marks, mrs_marks, pages_marks;
  SharedLock words[kWordLocks];  // each lock guards the words at one place of every page (atomics.h)
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

// The arena follows the tables: pages for the rings of completion and receive queues.
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
