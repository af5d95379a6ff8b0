// The attempts of one search that found nothing better and left everything as it was. Another attempt that
// would go the same way finds as little. NCCL makes many of them: it also permits path types that no path
// has, or that no channel comes to. One thread at a time.
#pragma once

#include <vector>

#include "topo/search/candidates.h"
#include "topo/search/channel_set.h"
#include "topo/search/limits_noted.h"

namespace railwise::topo {

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

}  // namespace railwise::topo
