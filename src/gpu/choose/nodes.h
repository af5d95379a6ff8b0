// Which nodes a job should take, when each of them gives the same number of GPUs. Pure; thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "gpu/choose/choose.h"

namespace railwise::gpu {

// What a node has to give: its best set of GPUs.
struct NodeCandidate {
  Score score;       // of the set
  double intra = 0;  // fitness of the set within the node
  int group = -1;    // switch group, 0 or more; -1: no groups are known
};

struct NodesAnswer {
  std::vector<int> nodes;  // ascending
  int groups = 0;          // that these nodes are in; 0: no groups are known
  double inter = 0;
  double intra = 0;  // of the worst of these nodes
  double total = 0;  // fitness
};

// The `count` nodes with the best fitness (choose/fitness.h); of equal ones those whose sets are better, then
// the first ones. Without groups the sets alone decide. `groups_available`: how many groups there are, of
// which the candidates may be in some. Nothing: there are not so many nodes.
std::optional<NodesAnswer> chooseNodes(const std::vector<NodeCandidate>& candidates, int count,
                                       int groups_available);

}  // namespace railwise::gpu
