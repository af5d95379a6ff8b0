// Layout of the shared segment: plain tables of fixed size in one sparse memory file; only touched pages cost
// memory. A zeroed segment is a valid empty one. A record belongs to a process while its `owner` holds that
// process's token; each table entry is published by that one store, so that a process may die at any
// instruction: whoever finds it dead frees what carries its token (tables.h). Change kLayoutVersion with any
// change here.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "softdev/process_table.h"
#include "softdev/shared_lock.h"

namespace railwise::softdev {

constexpr uint64_t kMagic = 0x3165736977'6c6961ULL;
constexpr uint32_t kLayoutVersion = 1;

constexpr uint32_t kMaxPorts = 4096;  // distinct GUIDs ever seen on a fabric: LIDs 1..4096
constexpr uint32_t kMaxContexts = 4096;
constexpr uint32_t kMaxQps = 32768;  // index: low 16 bits of a QP number, the 8 above are its generation
constexpr uint32_t kMaxCqs = 32768;
constexpr uint32_t kMaxMrs =
    1U << 18;  // index: high 24 bits of a key, the low 8 change at every registration
constexpr uint32_t kMaxGids = 16;
constexpr uint32_t kFirstQpIndex = 2;  // QP numbers 0 and 1 are special in InfiniBand
constexpr uint32_t kPageBytes = 4096;
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

enum class CqeKind : uint16_t { kSend, kReceive, kVoid };  // kVoid: its QP is gone, polling skips it

struct alignas(64) Cqe {
  uint64_t wr_id;
  uint64_t retires;  // polling it frees the queue slots below this count
  uint32_t status;
  uint32_t opcode;
  uint32_t byte_len;
  uint32_t imm_data;  // network order, as posted
  uint32_t qp_num;
  uint32_t src_qp;
  uint32_t wc_flags;
  uint32_t qp_index;
  uint16_t slid;
  CqeKind kind;
};
static_assert(sizeof(Cqe) == 64);

struct Gid {
  uint8_t raw[16];
  uint32_t type;  // GidType of config.h
};

struct PortRecord {
  std::atomic<uint64_t> guid;  // 0: free. LID = index + 1
};

struct alignas(64) ContextRecord {
  std::atomic<uint32_t> owner;
  uint32_t lid;
  uint32_t link_layer;
  uint32_t active;
  uint32_t gid_count;
  Gid gids[kMaxGids];
};

struct MrRecord {
  std::atomic<uint32_t> owner;
  std::atomic<uint32_t> key;  // 0: no region. Readers check it before and after the fields below
  std::atomic<uint32_t> pd;
  std::atomic<uint32_t> access;
  std::atomic<uint64_t> iova;
  std::atomic<uint64_t> address;
  std::atomic<uint64_t> length;
  std::atomic<uint32_t> key_byte;  // of the next registration in this record
  uint8_t reserved[20];
};
static_assert(sizeof(MrRecord) == 64);

struct alignas(64) CqRecord {
  std::atomic<uint32_t> owner;
  uint32_t capacity;  // power of two
  uint64_t ring;      // arena offset of `capacity` Cqe
  // Any process that completes something pushes, under `lock`; `tail` is the publishing store.
  alignas(64) SharedLock lock;
  std::atomic<uint32_t> overflowed;
  std::atomic<uint64_t> tail;
  // The owner polls.
  alignas(64) std::atomic<uint64_t> head;
};

struct alignas(64) QpRecord {
  std::atomic<uint32_t> owner;
  std::atomic<uint32_t> qp_num;  // 0 when free
  uint32_t generation;           // of the next QP in this record
  uint32_t context;
  uint32_t pd;
  uint32_t send_cq;
  uint32_t recv_cq;
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
  // The owner.
  alignas(64) std::atomic<uint64_t> rq_tail;  // receives posted
  std::atomic<uint64_t> rq_polled;            // receives whose completion was polled
  std::atomic<uint64_t> sq_polled;            // sends whose slot a polled completion freed
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
  // Everything below is allocated and freed under `tables`.
  alignas(64) SharedLock tables;
  std::atomic<uint32_t> next_pd;
  TableMarks contexts_marks, qps_marks, cqs_marks, mrs_marks, pages_marks;
  ProcessSlot processes[kMaxProcesses];
  PortRecord ports[kMaxPorts];
  ContextRecord contexts[kMaxContexts];
  QpRecord qps[kMaxQps];
  CqRecord cqs[kMaxCqs];
  MrRecord mrs[kMaxMrs];
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

constexpr uint32_t qpIndexOf(uint32_t qp_num) { return qp_num & 0xffff; }

}  // namespace railwise::softdev
