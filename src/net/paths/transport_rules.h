// What iWARP does otherwise than InfiniBand and RoCE. A link has one of the two constants below. iWARP has
// neither immediate data nor an order in which writes become visible, so an RDMA send reports what was
// written. A write or send is complete when the local TCP has its data, perhaps long before it arrives. So an
// RDMA read follows: the device of the peer answers it only when it has everything that was sent before
// (RFC 5040, section 5.5). The completion of the read is what the completion of the report is elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net/device/window_arena.h"
#include "net/paths/lane.h"
#include "verbs/handles.h"

namespace railwise::net {

struct TransportRules {
  // An RDMA write can have an immediate. False: what reports and asks are sends, which arrive in posted
  // buffers.
  bool has_immediates;
  // A completed write has arrived at the peer. False: only a completed read shows that it has.
  bool completion_means_arrival;
  ibv_wr_opcode report;  // reports what was written
};

inline constexpr TransportRules kRdmaRules = {
    .has_immediates = true, .completion_means_arrival = true, .report = IBV_WR_RDMA_WRITE_WITH_IMM};
inline constexpr TransportRules kIwarpRules = {
    .has_immediates = false, .completion_means_arrival = false, .report = IBV_WR_SEND};

// The begin of a window that the other end reads, to see whether a path works: in a trial, and on iWARP as
// the proof that something has arrived. Nobody writes there while the window is used.
struct alignas(64) WindowHead {
  uint64_t mark;
};
inline constexpr uint64_t kWindowMark = 0x4b52414d;  // any value except 0

// How an end learns that what it has posted has arrived at the peer: by a signalled work request whose
// completion shows it. On InfiniBand and RoCE that is an RDMA write of no bytes. On iWARP a write is complete
// when the local TCP has its data, so there it is a read of the begin of the peer's window: the peer's device
// answers only when it has everything that was sent before (RFC 5040, section 5.5). A trial reads there too.
//
// Threads: belongs to one connection; one thread at a time.
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
