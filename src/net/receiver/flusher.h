// The flushes of a receiver: reads of GPU memory through the NICs that wrote it. After such a read the GPU
// sees what was written. A flush needs the NIC, not the peer: it goes on when the peer has left or the
// connection has failed, and on another rail when its own is lost. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fixed_pool.h"
#include "net/connection/connection.h"
#include "net/paths/endpoint.h"
#include "net/paths/self_queue_pair.h"
#include "net/receiver/receives.h"
#include "record/layout.h"
#include "verbs/handles.h"

namespace railwise::net {

// Through which rails a flush goes: those that wrote the receive. NCCL may ask for the flush of a receive
// after its epoch has ended, so the rails of earlier epochs are kept. Plain values; one thread at a time.
class FlushRails {
 public:
  // An epoch has ended: its `rails` may have written receives up to `up_to`.
  void keep(std::span<const Rail> rails, uint64_t up_to) {
    if (up_to > up_to_ + kOutstandingReceives) rails_.clear();  // they wrote receives that are over
    for (const Rail& rail : rails) {
      if (placeOf(rail, rails_) < 0) rails_.push_back(rail);
    }
    up_to_ = up_to;
  }
  // The rails of earlier epochs, if `receive` (null: not known) came in one of them: Receive::rails is
  // cleared with each epoch. Else none.
  std::span<const Rail> earlierOf(const Receive* receive) const {
    if (receive == nullptr || receive->rails != 0 || receive->number > up_to_) return {};
    return rails_;
  }

 private:
  std::vector<Rail> rails_;
  uint64_t up_to_ = 0;
};

class Flusher {
 public:
  struct Flush : Request {
    Flush() { counter = &finished; }
    Flush(const Flush&) = delete;
    Flush& operator=(const Flush&) = delete;

    uint64_t finished = 0;  // 1: it is complete
    uint32_t reads = 0;     // reads that are outstanding
    uint64_t address = 0;
    const MemoryHandle* memory = nullptr;
    int failures = 0;
    bool again = false;  // a read has failed; the flush must be posted again
    Clock::time_point begun = {};
    Clock::time_point posted = {};
  };

  // The counts in the connection's record are for each rail in turn.
  explicit Flusher(Connection& connection);
  ~Flusher();
  // Each read writes one byte to `target`, which is in the link's window.
  void setTarget(uint64_t* target) { target_ = target; }

  // Makes the queue pair for flushes through `rail`. Without this call the first flush makes it. Errors:
  // kSystem, logged.
  Status openPath(const Rail& rail);
  // Begins a flush through the rails that wrote `receive`; null: through all. *request: the flush.
  Status begin(uint64_t address, const MemoryHandle& memory, const Receive* receive, Request** request);
  // Polls the queue pairs of all flushes. *done: `request`, which is a flush, is complete and free.
  Status test(Request& request, bool* done);
  // The epoch has ended; all receives up to `up_to` came in it or before. Drops the queue pairs, which
  // threads of the devices destroy. Every flush that waits for a read begins anew.
  void leaveEpoch(uint64_t up_to);

 private:
  struct Path : SelfQueuePair {
    record::FlushCounts* counts = nullptr;
  };

  Result<Path*> pathThrough(const Rail& rail);
  record::FlushCounts* countsOf(uint16_t rail) const;
  // Reads through those of `rails` whose bit is set in `which`.
  Status post(Flush& flush, std::span<const Rail> rails, uint32_t which);
  Status readThrough(Flush& flush, const Rail& rail);
  void poll();
  Status again(Flush& flush);
  Status fail(Status status, const std::string& what);
  void drop();
  // Drops the queue pairs. `destroy` ends what is left of each.
  void dropPaths(void (*destroy)(Hca& hca, const std::shared_ptr<Remains>& remains) noexcept);

  Link& link_;
  const std::span<record::FlushCounts, record::kFlushRails> counts_;
  uint64_t* target_ = nullptr;
  FlushRails rails_;
  std::vector<std::unique_ptr<Path>> paths_;
  Status failure_;
  FixedPool<Flush, kOutstandingFlushes> flushes_;
};

}  // namespace railwise::net
