// The receives of a connection, one for each slot. The caller has the two numbers between which receives can
// be open, because they lie in the record of the connection: `arrived` (all receives up to it are complete)
// and `next` (irecv opens it next). Plain values; one thread at a time.
#pragma once

#include <array>
#include <cstdint>

#include "net/paths/link_user.h"
#include "net/protocol/wire.h"
#include "net/receiver/receive.h"

namespace railwise::net {

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

}  // namespace railwise::net
