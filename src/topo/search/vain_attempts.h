// The attempts of one search that found nothing better and left everything as it was. Another attempt that
// would go the same way finds as little. NCCL makes many of them: it also permits path types that no path
// has, or that no channel comes to. One thread at a time.
#pragma once

#include <algorithm>
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

// The bandwidths that NCCL's search tries for a channel. Thread-safe.

// In GB/s, from fast to slow. `sm`: the lowest compute capability of all GPUs, 90 means 9.0. `inter`: the
// network takes part.
std::vector<float> searchSpeeds(NcclVersion version, bool inter, int sm);

}  // namespace railwise::topo
