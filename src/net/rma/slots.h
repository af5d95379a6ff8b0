// The 8 bytes that signals are added to, at the target. A slot that a CPU can write is added to at once. A
// slot in the memory of a GPU is written through a NIC of this rank (loopback.h), behind the data:
//
//   nobody resets it   the sum is kept here, and written as a whole: to write it twice does no harm
//   it may be reset    its value is read, then written with what was added. Nobody resets a slot that signals
//                      are on their way to (NCCL 2.30.7, nccl_device/gin.h:376)
//
// One work request for each slot is under way at most. What is added meanwhile goes with the next one. Before
// a write, each NIC that has brought data, except the one that writes, is flushed by a read.
//
// Threads: the group's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "net/rma/loopback.h"
#include "net/rma/mistakes.h"
#include "net/rma/window.h"

namespace railwise::net {

class SignalSlots {
 public:
  explicit SignalSlots(Loopback& loopback) : loopback_(loopback) {}

  // Adds `value` to the 8 bytes at `offset` of `window`, which the caller has checked. `home`, `brought`: the
  // rail that has brought the signal, and all that have brought data that it covers, as bits of Loopback.
  // Returns the number of the addition that a NIC must write, from 1; 0: the CPU has added it.
  uint64_t add(const RmaWindow& window, uint64_t offset, uint64_t value, uint32_t home, uint32_t brought) {
    const uint64_t address = window.address + offset;
    if (window.inGpu()) return addInGpu(window, address, value, home, brought);
    __atomic_fetch_add(reinterpret_cast<uint64_t*>(address), value, __ATOMIC_ACQ_REL);
    return 0;
  }
  // These rails have brought data before a failure, which later signals cover.
  void mustFlush(uint32_t rails);
  // Goes on with what is under way. "": all is well; else what is undecided for ever.
  std::string progress();
  bool busy() const { return !dirty_.empty(); }
  // Is an addition with this number, or an earlier one, not written yet?
  bool owes(uint64_t addition) const;
  // Forgets the slots of a window that is being deregistered, once nothing is under way there. False: try
  // again, or abandon them.
  bool forget(const RmaWindow& window);
  void abandon(const RmaWindow& window);

 private:
  // kDoubt: a write has failed, and may have been executed. kCheck: it is read whether that is so.
  enum class Step : uint8_t { kIdle, kFlush, kRead, kWrite, kDoubt, kCheck };
  struct Slot {
    const RmaWindow* window = nullptr;  // null: it was deregistered
    uint64_t address = 0;
    uint64_t added = 0;   // and not yet in a write
    uint64_t value = 0;   // what the write that is under way writes, or the last one wrote
    uint64_t before = 0;  // resettable: what it was before that write
    uint64_t oldest = 0;  // dirty: the earliest addition that is not written
    uint64_t after = 0;   // the first addition that the write under way does not have
    uint32_t home = 0;    // rail of the latest signal
    uint32_t flush = 0;   // rails that must be flushed before the next write
    uint32_t covers = 0;  // rails that the work request under way flushes, or whose data it stands behind
    uint32_t clears = 0;  // of these, those that are flushed for all slots
    uint64_t* read = nullptr;
    Step step = Step::kIdle;
    bool dirty = false;
    bool known = false;  // `value` is what the memory has, unless somebody resets it; else it is read first
    Loopback::Operation operation;
  };

  uint64_t addInGpu(const RmaWindow& window, uint64_t address, uint64_t value, uint32_t home,
                    uint32_t brought);
  std::string advance(Slot& slot);
  void begin(Slot& slot);
  // Rails that must be flushed before `rail` writes.
  uint32_t othersThan(std::size_t rail, const Slot& slot) const {
    if (isPlanted(Mistake::kNoFlushOfOthers)) return 0;
    return slot.flush & ~(uint32_t{1} << rail) & loopback_.flushable();
  }
  void write(Slot& slot, std::size_t rail, uint64_t value);
  void check(Slot& slot);

  Loopback& loopback_;
  std::unordered_map<uint64_t, std::unique_ptr<Slot>> slots_;  // by address
  std::vector<Slot*> dirty_;                                   // what has something to do
  uint64_t additions_ = 0;                                     // that NICs write
  uint32_t stale_ = 0;                                         // rails whose data a failure has left behind
};

}  // namespace railwise::net
