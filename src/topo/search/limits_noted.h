// What an attempt asked of its limits. An attempt with other limits that would give all the same answers does
// exactly what this one did. Plain values.
#pragma once

#include <algorithm>

#include "topo/settings.h"

namespace railwise::topo {

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

}  // namespace railwise::topo
