// The work requests of small messages, prepared so that a send fills in only what differs. Plain values of
// one sender; one thread at a time.
#pragma once

#include <array>

#include "net/paths/lane.h"
#include "net/protocol/wire.h"
#include "net/sender/group.h"

namespace railwise::net {

struct FastPath {
  FastPath() {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      batch[i].next = i + 1 < batch.size() ? &batch[i + 1] : nullptr;
      batch[i].sg_list = &batch_sges[i];
      batch[i].num_sge = 1;
      batch[i].opcode = IBV_WR_RDMA_WRITE;
    }
    work.sg_list = &sge;
    work.num_sge = 1;
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  FastPath(const FastPath&) = delete;
  FastPath& operator=(const FastPath&) = delete;

  // Opens or closes the fast path. Messages up to `unsignalled` bytes may take it. 0 closes it: earlier
  // messages are not posted yet, or this epoch has no fast path.
  void allow(std::size_t unsignalled) {
    unsignalled_now = unsignalled;
    bytes = takes_turns ? 0 : unsignalled;
  }
  bool open() const { return unsignalled_now != 0; }

  // ---- Members that every small message reads, on few cache lines (connection.h says why).
  LaneQueuePair* queue_pair = nullptr;  // the next small message goes to it
  Group* open_group = nullptr;          // a small group: its sends came in order, and some are still missing
  std::size_t unsignalled_now = 0;
  std::size_t bytes = 0;     // largest message that isendReady() posts itself; 0 if queue pairs take turns
  bool takes_turns = false;  // several queue pairs take small messages
  ibv_send_wr work = {};
  ibv_sge sge = {};

  // ---- a group of small messages
  std::array<ibv_send_wr, kMaxReceives> batch = {};
  std::array<ibv_sge, kMaxReceives> batch_sges = {};
  Pack pack = {};  // the bytes of a packed group
};

}  // namespace railwise::net
