#include "topo/search/vain_attempts.h"

#include <algorithm>

namespace railwise::topo {
namespace {

bool goesTheSameWay(const VainAttempt& known, SearchLimits limits, Candidates& candidates) {
  if (!known.noted.intra.holdFor(limits.type_intra) || !known.noted.inter.holdFor(limits.type_inter))
    return false;
  const PathType type_inter = limits.type_inter;
  limits.type_intra = known.limits.type_intra;
  limits.type_inter = known.limits.type_inter;
  if (!known.noted.cross_nic) limits.cross_nic = known.limits.cross_nic;
  // The farthest type also says which NETs an attempt tries.
  return limits == known.limits &&
         (type_inter == limits.type_inter || candidates.equalNets(type_inter, limits.type_inter));
}

}  // namespace

const VainAttempt* VainAttempts::find(const SearchLimits& limits, int hops, Candidates& candidates) const {
  const auto found = std::find_if(attempts_.begin(), attempts_.end(), [&](const VainAttempt& known) {
    return known.hops == hops && goesTheSameWay(known, limits, candidates);
  });
  return found == attempts_.end() ? nullptr : &*found;
}

}  // namespace railwise::topo
