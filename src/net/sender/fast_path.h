// The work request of a small message, prepared so that a send fills in only what differs, and the queue pair
// that takes it. Plain values of one sender; one thread at a time.
#pragma once

#include <algorithm>
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
    data.sg_list = &sge;
    data.num_sge = 1;
    data.opcode = IBV_WR_RDMA_WRITE;
    data.next = &tail;
    tail.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    tail.send_flags = IBV_SEND_SIGNALED;
  }
  FastPath(const FastPath&) = delete;
  FastPath& operator=(const FastPath&) = delete;

  // Opens or closes the fast path. Messages up to `whole` bytes may take it; those up to `unsignalled` need
  // not be signalled. 0 closes it: earlier messages are not posted yet, or this epoch has no fast path.
  // Those up to `striped` may be cut by the plan.
  void allow(std::size_t unsignalled, std::size_t whole, std::size_t striped) {
    unsignalled_now = unsignalled;
    bytes = unsignalled != 0 ? whole : 0;
    largest = unsignalled != 0 ? std::max(whole, striped) : 0;
  }
  bool open() const { return unsignalled_now != 0; }

  // ---- Members that every small message reads, on few cache lines (connection.h says why).
  LaneQueuePair* queue_pair = nullptr;  // the next small message goes to it
  Group* open_group = nullptr;          // a small group: its sends came in order, and some are still missing
  std::size_t unsignalled_now = 0;
  std::size_t bytes = 0;     // largest message that isendReady() posts as one write
  std::size_t largest = 0;   // largest message that isendReady() posts, or gives to sendStriped()
  bool takes_turns = false;  // several queue pairs take small messages
  std::array<uint8_t, kTurns> turn = {};  // which of them: by the number of the message
  ibv_sge sge = {};
  ibv_send_wr work = {};
  // Where the immediate has a work request of its own: the bytes, and the empty write with the immediate.
  ibv_send_wr data = {};
  ibv_send_wr tail = {};
};

}  // namespace railwise::net
