// The work request of a small message, prepared so that a send fills in only what differs, and the queue pair
// that takes it. Plain values of one sender; one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "net/paths/lane.h"
#include "net/sender/group.h"

namespace railwise::net {

struct FastPath {
  static constexpr std::size_t kTurns = 16;

  FastPath() {
    work.sg_list = &sge;
    work.num_sge = 1;
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  FastPath(const FastPath&) = delete;
  FastPath& operator=(const FastPath&) = delete;

  // Opens or closes the fast path. Messages up to `whole` bytes may take it; those up to `unsignalled` need
  // not be signalled. 0 closes it: earlier messages are not posted yet, or this epoch has no fast path.
  void allow(std::size_t unsignalled, std::size_t whole) {
    unsignalled_now = unsignalled;
    bytes = unsignalled != 0 ? whole : 0;
  }
  bool open() const { return unsignalled_now != 0; }

  // ---- Members that every small message reads, on few cache lines (connection.h says why).
  LaneQueuePair* queue_pair = nullptr;  // the next small message goes to it
  Group* open_group = nullptr;          // a small group: its sends came in order, and some are still missing
  std::size_t unsignalled_now = 0;
  std::size_t bytes = 0;                  // largest message that isendReady() posts itself
  bool takes_turns = false;               // several queue pairs take small messages
  std::array<uint8_t, kTurns> turn = {};  // which of them: by the number of the message
  ibv_sge sge = {};
  ibv_send_wr work = {};
};

}  // namespace railwise::net
