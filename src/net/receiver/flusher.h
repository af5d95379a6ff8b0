// The flushes of a receiver: reads of GPU memory through the NICs that wrote it. After such a read the GPU
// sees what was written. A flush needs the NIC, not the peer: it goes on when the peer has left or the
// connection has failed, and on another rail when its own is lost. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fixed_pool.h"
#include "base/settings/config.h"
#include "net/connection/request.h"
#include "net/device/device.h"
#include "net/device/fence.h"
#include "record/layout.h"
#include "verbs/handles.h"

namespace railwise::net {

class Flusher {
 public:
  // What the connection does for its flushes.
  class Host {
   public:
    // May a flush go on through another rail when its own is lost?
    virtual bool canFlushElsewhere() const = 0;
    // The rails that work now.
    virtual std::vector<Rail> railsForFlush() const = 0;
    // Keys of memory, and the local key of the window, through a rail. Errors: kSystem, logged.
    virtual Result<MemoryKeys> flushKeys(const MemoryHandle& memory, const Rail& rail) const = 0;
    virtual uint32_t flushTargetKey(const Rail& rail) const = 0;
    // Fails the connection: logs the failure and returns the error that all its calls return from now on.
    virtual Status failFlush(Status status, const std::string& what) = 0;
    // A flush waits: looks at the events of the rails. Returns the failure of the connection, if it has one.
    virtual Status waitForFlush() = 0;

   protected:
    ~Host() = default;
  };

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

  Flusher(Host& host, const Config& config) : host_(host), config_(config) {}
  ~Flusher();
  // Each read writes one byte to `target`, which is in the connection's window.
  void setTarget(uint64_t* target) { target_ = target; }
  // Keeps the window as long as queue pairs may write into it.
  void keep(std::shared_ptr<const void> window) { memory_ = std::move(window); }
  // Reads and completions are counted there, for each rail in turn.
  void countIn(std::span<record::FlushCounts, record::kFlushRails> counts) { counts_ = counts.data(); }

  // Makes the queue pair for flushes through `rail`. Without this call the first flush makes it. Errors:
  // kSystem, logged.
  Status openPath(const Rail& rail);
  // Begins a flush through those of `rails` whose bit is set in `which`. *flush: the request.
  Status begin(uint64_t address, const MemoryHandle& memory, std::span<const Rail> rails, uint32_t which,
               Flush** flush);
  // Polls the queue pairs of all flushes. *done: `request`, which is a flush, is complete.
  Status progress(const Request& request, bool* done);
  void free(Request& request) { flushes_.give(static_cast<Flush*>(&request)); }
  // A rail is lost: drops the queue pairs, which threads of the devices destroy. Every flush that waits for a
  // read begins anew.
  void drop();

 private:
  // A queue pair connected to itself. It needs no peer.
  struct Path {
    Rail rail;
    verbs::Cq cq;
    verbs::Qp qp;
    record::FlushCounts* counts = nullptr;
    std::shared_ptr<Remains> remains = Remains::create(1);  // takes the rest at the end
  };

  Result<Path*> pathThrough(const Rail& rail);
  Status post(Flush& flush, std::span<const Rail> rails, uint32_t which);
  Status readThrough(Flush& flush, const Rail& rail);
  void poll();
  Status again(Flush& flush);
  Status fail(Status status, const std::string& what);
  // Drops the queue pairs. `destroy` ends what is left of each.
  void dropPaths(void (*destroy)(Hca& hca, const std::shared_ptr<Remains>& remains) noexcept);

  Host& host_;
  const Config& config_;
  record::FlushCounts* countsOf(uint16_t rail) const;

  uint64_t* target_ = nullptr;
  std::shared_ptr<const void> memory_;
  record::FlushCounts* counts_ = nullptr;
  std::vector<std::unique_ptr<Path>> paths_;
  Status failure_;
  FixedPool<Flush, kOutstandingFlushes> flushes_;
};

}  // namespace railwise::net
