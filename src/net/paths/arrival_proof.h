// How an end learns that what it has posted has arrived at the peer: by a signalled work request whose
// completion shows it. On InfiniBand and RoCE that is an RDMA write of no bytes. On iWARP a write is complete
// when the local TCP has its data, so there it is a read of the begin of the peer's window: the peer's device
// answers only when it has everything that was sent before (RFC 5040, section 5.5). A trial reads there too.
//
// Threads: belongs to one connection; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net/device/window_arena.h"
#include "net/paths/lane.h"
#include "verbs/handles.h"

namespace railwise::net {

class ArrivalProof {
 public:
  // What reads need of this end's window: the first 8 bytes of the peer's window land there. Nobody looks at
  // them.
  static constexpr std::size_t kReadTargetBytes = 64;

  // `by_read`: a completed write says nothing of its arrival.
  explicit ArrivalProof(bool by_read) : by_read_(by_read) {}
  void setReadTarget(const Window& window, std::size_t offset) { target_ = window.at<uint64_t>(offset); }

  // The proof for everything that was posted to the queue pair before. `peer_window`: its address. `sge`:
  // what a read is into; it must live until the work request is posted.
  ibv_send_wr workRequest(LaneQueuePair& queue_pair, uint64_t peer_window, ibv_sge& sge) const {
    ibv_send_wr work = {};
    work.opcode = IBV_WR_RDMA_WRITE;
    work.send_flags = IBV_SEND_SIGNALED;
    work.wr.rdma.remote_addr = peer_window;
    work.wr.rdma.rkey = queue_pair.peer_window_key;
    if (by_read_) {
      work.sg_list = &sge;
      makeRead(work, peer_window, queue_pair.window_key, queue_pair.peer_window_key);
      queue_pair.counts().control_extra += sge.length;
    }
    return work;
  }
  // Makes `work` a read of the peer's window, into its first sge. `local_key`, `remote_key`: of the two
  // windows.
  void makeRead(ibv_send_wr& work, uint64_t peer_window, uint32_t local_key, uint32_t remote_key) const {
    work.opcode = IBV_WR_RDMA_READ;
    work.wr.rdma.remote_addr = peer_window;
    work.wr.rdma.rkey = remote_key;
    *work.sg_list = {reinterpret_cast<uint64_t>(target_), sizeof *target_, local_key};
    work.num_sge = 1;
  }

 private:
  bool by_read_;
  uint64_t* target_ = nullptr;
};

}  // namespace railwise::net
