// What the stages of an attempt came to. A stage is all that the further search depends on, as one number of
// 64 bits. The search often returns to a stage in which it was before, because the GPUs of a channel can come
// in any order. It then needs only the outcome. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace railwise::topo {

class KnownStages {
 public:
  // A stage that was searched to its end, and of which nothing better can come again.
  struct Outcome {
    int steps = 0;       // how many steps the search spent
    int least_hops = 0;  // holds only if the channels before the stage have at least as many hops
  };

  // Forgets all stages. Keeps the memory.
  void clear();
  std::optional<Outcome> find(uint64_t stage) const;
  void add(uint64_t stage, const Outcome& outcome);

 private:
  // Small, because a search waits for the memory of each.
  struct Slot {
    uint64_t stage = 0;
    uint16_t generation = 0;  // the slot is empty if this is not the table's generation
    uint16_t steps = 0;       // an attempt has 2^14 at most
    int32_t least_hops = 0;
  };
  std::size_t slotOf(uint64_t stage) const;
  void grow();

  std::vector<Slot> slots_;  // a power of two
  std::size_t count_ = 0;
  uint16_t generation_ = 1;
};

}  // namespace railwise::topo
