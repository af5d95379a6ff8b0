// The receives of a connection, one for each slot. The caller has the two numbers between which receives can
// be open, because they lie in the record of the connection: `arrived` (all receives up to it are complete)
// and `next` (irecv opens it next). Plain values; one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "net/connection/request.h"
#include "net/device/memory.h"
#include "net/limits.h"
#include "net/paths/link_user.h"
#include "net/protocol/wire.h"
#include "verbs/handles.h"

namespace railwise::net {

// A receive: what irecv takes, until test() says that it is complete. Plain values; one thread at a time.

// One of the buffers that irecv takes.
struct ReceiveBuffer {
  uint64_t address;
  std::size_t bytes;
  int tag;
  const MemoryHandle* memory;  // may be null when bytes is 0
  void* profiler;              // NCCL's handle for events, or null

  bool isHost() const { return memory != nullptr && memory->kind == MemoryKind::kHost; }
  // So many bytes of it can be filled.
  uint32_t room() const { return static_cast<uint32_t>(std::min<std::size_t>(bytes, kMaxMessageBytes)); }
};

// A receive of one buffer uses only the first cache line.
struct alignas(64) Receive : Request {
  static constexpr uint64_t kAllArrived = UINT64_MAX;

  Receive() {
    counter = &arrived;
    due = kAllArrived;
  }
  Receive(const Receive&) = delete;
  Receive& operator=(const Receive&) = delete;

  uint16_t rails = 0;  // bit r: rail r has carried some of its data
  // Bit i: segment i has arrived; of a message in counted segments (`alike` is set): so many have arrived.
  // kAllArrived: the receive is complete.
  uint64_t arrived = 0;
  uint32_t least_room = 0;  // bytes that fit its smallest buffer
  uint8_t segments = 0;     // number of segments; 0: not yet known
  bool alike = false;       // the messages are of one size, which `bytes` has or counts up to
  bool silent = false;
  bool profiled = false;                              // some event in `events` is not null
  std::array<uint64_t, kMaxReceives> addresses = {};  // of the buffers
  // Of several buffers:
  std::array<uint32_t, kMaxReceives> rooms = {};  // bytes that fit
  bool host = false;                              // all are host memory
  // Set when a record has arrived:
  std::array<uint32_t, kMaxReceives> sizes = {};  // bytes that have arrived
  std::array<void*, kMaxReceives> events = {};    // the profiler's events

  // irecv has taken it. The addresses, and the rooms of several buffers, are set beside.
  void open(uint64_t its_number, uint32_t buffers, uint32_t room) {
    number = its_number;
    kind = Kind::kReceive;
    count = static_cast<uint8_t>(buffers);
    arrived = 0;
    segments = 0;
    least_room = room;
    rails = 0;
    alike = silent = profiled = false;
  }
  // Keeps buffer `i` of several. Returns its room.
  uint32_t addBuffer(std::size_t i, const ReceiveBuffer& buffer) {
    addresses[i] = buffer.address;
    return rooms[i] = buffer.room();
  }
  // NCCL sees by itself when the data are there. It reads no size, and profiles nothing.
  void completeSilently() {
    silent = alike = true;
    arrived = kAllArrived;
    bytes = least_room;
  }
  // Its epoch has ended. A message of which only some segments have arrived is sent again as a whole.
  void forgetSegments() {
    rails = 0;  // whatever they meant
    if (!isOpen()) return;
    arrived = segments = 0;
    alike = false;
  }

  bool isOpen() const { return kind == Kind::kReceive && !complete(); }
  uint32_t room(std::size_t i) const { return count > 1 ? rooms[i] : least_room; }
  uint64_t allRoom() const {
    uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += room(i);
    return sum;
  }
  // Bytes that have arrived in buffer `i`.
  uint32_t size(std::size_t i) const { return alike ? bytes : sizes[i]; }
};

class Receives {
 public:
  explicit Receives(Connection* owner) {
    for (Receive& receive : slots_) receive.connection = owner;
  }

  Receive& inSlot(uint32_t slot) { return slots_[slot]; }
  Receive& of(uint64_t number) { return slots_[number % kSlots]; }
  const Receive& of(uint64_t number) const { return slots_[number % kSlots]; }

  // The number up to which all receives are complete now. The sender has matched all receives up to
  // `matched`. Lanes overtake each other. Silent receives report nothing; they are complete when a later
  // receive is.
  uint64_t completeUpTo(uint64_t arrived, uint64_t matched) const {
    while (arrived < matched && of(arrived + 1).number == arrived + 1 && of(arrived + 1).complete())
      ++arrived;
    return arrived;
  }
  // The latest complete receive at `address`; null: it is not known any more.
  const Receive* latestAt(uint64_t address, uint64_t next) const;
  UnderWay underWay(uint64_t arrived, uint64_t next) const;
  // Bytes of the largest open receive, as far as the size of its buffers shows.
  uint64_t largestUnderWay() const;

  // ---- after the end of an epoch

  bool isOpen() const;
  void forgetSegments();
  // All receives up to the first number are complete. Bit i of the second: so is receive first + 1 + i.
  Words words(uint64_t arrived, uint64_t next) const;

 private:
  std::array<Receive, kSlots> slots_;
};

// The events of a receive for NCCL's profiler, one for each buffer for which NCCL wants one. May allocate and
// call NCCL. Call them from the thread that drives the connection.

// `device`: NCCL's number of the device. `qp`: brought data last; null: there is none.
void startEvents(Receive& receive, std::span<const ReceiveBuffer> buffers, int device, const ibv_qp* qp);
// The receive is complete.
void stopEvents(const Receive& receive, int device);

}  // namespace railwise::net
