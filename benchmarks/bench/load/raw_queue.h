// A queue pair for bare RDMA writes, with memory for a window of outgoing messages and for a window of
// messages that the other end writes. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "benchmarks/bench/load/traffic.h"
#include "perf/measuring/page_memory.h"
#include "verbs/gid.h"
#include "verbs/queue_pair.h"

namespace railwise::cli {

// What the other end must know about this end. It is sent as raw bytes, because both ends are the same
// program.
struct RawAddress {
  verbs::PathAddress path;
  uint64_t memory;
  uint32_t key;
};
static_assert(sizeof(RawAddress) <= NCCL_NET_HANDLE_MAXSIZE && std::is_trivially_copyable_v<RawAddress>);

class RawQueue {
 public:
  RawQueue(const Config& config, BenchShape shape);

  Outcome<void> open(int device);
  RawAddress address() const;
  bool join(const RawAddress& remote);

  bool write(uint64_t slot) {
    const uint64_t offset = slot * stride_;
    piece_.addr = reinterpret_cast<uint64_t>(from(0)) + offset;
    request_.wr.rdma.remote_addr = remote_.memory + offset;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(queue_.qp.get(), &request_, &bad) == 0;
  }
  // The number of completed writes; negative: a write has failed.
  int poll();
  // Posts the writes one window at a time. False: a write has failed.
  bool writeMany(uint64_t messages);

  // fill() writes data that is the same at both ends. arrived(): has all of the peer's data arrived here?
  void fill();
  bool arrived() const;

  std::byte& lastSent() const { return from(0)[bytes_ - 1]; }
  std::byte& lastArrived() const { return to(0)[bytes_ - 1]; }

 private:
  std::byte* from(uint64_t slot) const { return memory_.get() + slot * stride_; }
  std::byte* to(uint64_t slot) const { return from(slots_ + slot); }
  bool registerMemory();

  const Config& config_;
  const std::size_t bytes_;
  const std::size_t stride_;
  const uint64_t slots_;
  PageMemory memory_;
  verbs::Context context_;
  verbs::Pd pd_;
  verbs::Mr mr_;
  verbs::Cq cq_;
  verbs::Port port_;
  verbs::Gid gid_;
  verbs::QueuePair queue_;
  RawAddress remote_ = {};
  ibv_sge piece_ = {};
  ibv_send_wr request_ = {};
};

}  // namespace railwise::cli
