// The attempts of one search that found nothing better and left everything as it was. Another attempt that
// would go the same way finds as little. NCCL makes many of them: it also permits path types that no path
// has, or that no channel comes to. One thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "topo/search/candidates.h"
#include "topo/search/channel_graph.h"
#include "topo/settings.h"

namespace railwise::topo {

// What an attempt asked of its limits. An attempt with other limits that would give all the same answers does
// exactly what this one did. Plain values.

// The path types that an attempt compared with the farthest one that it may use.
struct TypesNoted {
  PathType walked = PathType::kLoc;   // the farthest one that was near enough
  PathType refused = PathType::kDis;  // the nearest one that was too far

  void note(PathType type, bool permitted) {
    if (permitted) walked = std::max(walked, type);
    else refused = std::min(refused, type);
  }
  // Would all comparisons end as they did?
  bool holdFor(PathType farthest) const { return walked <= farthest && farthest < refused; }
};

struct LimitsNoted {
  TypesNoted intra;
  TypesNoted inter;
  bool cross_nic = false;  // something depended on whether a channel may leave by another NIC
};

struct VainAttempt {
  SearchLimits limits;
  LimitsNoted noted;
  int hops = 0;        // before the attempt, and after it
  int steps_left = 0;  // after it
};

class VainAttempts {
 public:
  void clear() { attempts_.clear(); }
  void add(const VainAttempt& attempt) { attempts_.push_back(attempt); }
  // An attempt that went as one under these limits would go. Null: none is known.
  const VainAttempt* find(const SearchLimits& limits, int hops, Candidates& candidates) const;

 private:
  std::vector<VainAttempt> attempts_;
};

// What the stages of an attempt came to. A stage is all that the further search depends on, as one number of
// 64 bits. The search often returns to a stage in which it was before, because the GPUs of a channel can come
// in any order. It then needs only the outcome. One thread at a time.

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

// The bandwidths that NCCL's search tries for a channel. Thread-safe.

// In GB/s, from fast to slow. `sm`: the lowest compute capability of all GPUs, 90 means 9.0. `inter`: the
// network takes part.
std::vector<float> searchSpeeds(NcclVersion version, bool inter, int sm);

}  // namespace railwise::topo
