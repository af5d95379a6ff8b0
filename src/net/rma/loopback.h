// This rank's NICs writing into this rank's own memory: signals into the memory of a GPU, which no CPU may be
// able to write; puts to the own rank; and reads that make visible what a NIC has brought (flushes). Each NIC
// has a queue pair that is connected to itself.
//
// A NIC that fails may have executed what it was asked for, or may still execute it. So an operation fails
// only when its queue pair is proven to touch no memory any more (device/fence.h). Then its owner may repeat
// it through another NIC. A NIC that has failed rests, as a path of a link does, while there are others.
//
// Threads: the group's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "net/device/device.h"
#include "net/device/window_arena.h"
#include "net/paths/offer.h"
#include "net/paths/self_queue_pair.h"
#include "net/patience.h"
#include "record/writer.h"
#include "verbs/handles.h"

namespace railwise::net {

class Loopback {
 public:
  // What an owner waits for. It lives until it is not busy, or for as long as the Loopback.
  struct Operation {
    bool busy() const { return left > 0; }

    uint32_t left = 0;  // work requests that are not complete
    bool failed = false;
  };

  Loopback(const Device& device, const Config& config, std::vector<Rail> standbys);
  ~Loopback();
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  // The bit of a rail; 0: it is not one of this rank's.
  uint32_t bitOf(const Rail& rail) const;
  // The rails that can be used now, the device's own first.
  uint32_t usable() const;
  // Those of them that a flush can be asked of. The others have failed several times in a row: what they have
  // emitted has arrived meanwhile.
  uint32_t flushable() const;
  // The lowest of `rails` that can be used and does not rest; of all rails if none of them can. Nothing:
  // there is none.
  std::optional<std::size_t> choose(uint32_t rails) const;

  // Reads 8 bytes of `memory` through each of `rails`, which makes visible to the GPU what they have written.
  // What cannot be posted makes the operation fail.
  void flush(uint32_t rails, const MemoryHandle& memory, uint64_t address, Operation& operation);
  // Work requests over the rail at place `rail`. `memory`, `address`: what is read or written remotely, that
  // is in this rank's memory. False: the queue is full, or the rail cannot be used now; call again later, and
  // choose again.
  bool write(std::size_t rail, uint64_t value, const MemoryHandle& memory, uint64_t address,
             Operation& operation);
  // Reads 8 bytes; *value receives the place where they will be.
  bool read(std::size_t rail, const MemoryHandle& memory, uint64_t address, Operation& operation,
            uint64_t** value);
  bool copy(std::size_t rail, const MemoryHandle& from, uint64_t from_address, const MemoryHandle& to,
            uint64_t to_address, uint32_t bytes, Operation& operation);
  // The largest copy().
  uint32_t mostBytes(std::size_t rail) const;

  // Takes completions, and the proofs of queue pairs that have failed.
  void poll();
  // poll() has something to do.
  bool busy() const { return open_ > 0 || failed_ > 0; }
  // Work requests that were complete so far.
  uint64_t completed() const { return completed_; }
  // Adds what was counted since the last call to the totals of the rails in the record.
  void tellCounts();

 private:
  static constexpr uint32_t kDepth = 64;
  static constexpr int kPollBatch = 16;

  struct Path : SelfQueuePair {
    std::vector<Operation*> open = {};  // for each work request that is not complete, in their order
    bool failed = false;
    std::size_t place = 0;              // among the rails
    Clock::time_point answered = {};    // since then the oldest work request waits
    std::shared_ptr<Fence> fence = {};  // of a path that has failed
    record::Totals counts = {};         // since they were told last
  };

  Path* openPath(std::size_t rail);
  bool post(Path& path, ibv_send_wr& work, Operation& operation);
  // The path of a rail with room for a work request; null: there is none now.
  Path* pathWithRoom(std::size_t rail);
  // A turn of 8 bytes in the window, for one work request.
  ibv_sge takeTurn(const Path& path) {
    const uint64_t at = window_->address() + turn_++ % kTurns * sizeof(uint64_t);
    const Result<MemoryKeys> keys = windowKeysOn(device_, *window_, path.rail);
    return {at, sizeof(uint64_t), keys.ok() ? keys->local : 0};
  }
  // `local`: with key 0 the path is lost.
  bool transfer(Path& path, ibv_wr_opcode opcode, unsigned int flags, ibv_sge local,
                const MemoryHandle& memory, uint64_t address, Operation& operation);
  std::optional<MemoryKeys> keysThrough(const Rail& rail, const MemoryHandle& memory) const;
  std::unique_ptr<Path> makePath(std::size_t rail);
  bool rests(std::size_t rail) const;
  // The rail has not done what it was asked for.
  void noteFailure(std::size_t rail);
  void pollPath(Path& path);
  void losePath(Path& path) noexcept;
  void dropPath(std::unique_ptr<Path>& path);
  static void tellCounts(Path& path);

  // More than can be under way over all rails, and over several that have failed and are not gone.
  static constexpr std::size_t kTurns = 4096;
  // A rail that has failed so many times in a row is not asked for flushes.
  static constexpr int kMostFailures = 3;
  // A work request that is not complete is looked at on one of so many polls: the clock costs more than a
  // poll.
  static constexpr uint32_t kPollsPerLook = 256;

  struct Health {
    int failures = 0;  // in a row
    Clock::time_point next_try = {};
    Clock::time_point rests_until = {};  // while there are others
  };

  const Device& device_;
  const Config& config_;
  const Patience patience_;
  std::vector<Rail> rails_;
  std::vector<Health> health_;      // by rail
  std::shared_ptr<Window> window_;  // what reads are into, and writes from: a turn of 8 bytes for each
  std::vector<std::unique_ptr<Path>> paths_;  // by rail; null: not made
  std::vector<std::unique_ptr<Path>> lost_;   // until their proof
  uint64_t turn_ = 0;
  std::size_t open_ = 0;
  std::size_t failed_ = 0;  // paths that have failed and are not gone
  uint64_t completed_ = 0;
  uint32_t polls_ = 0;
};

}  // namespace railwise::net
