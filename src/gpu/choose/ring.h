// The order of GPUs in a ring. Pure; thread-safe.
#pragma once

#include <vector>

namespace railwise::gpu {

// `set` in an order in which neighbours (the last and the first, too) are near: the slowest pair of
// neighbours has the most bandwidth, then all of them together. Begins with the lowest number; of equal
// orders the lowest one. Exact up to 10 GPUs; above, always the fastest unused neighbour comes next.
// `pair_gb_per_s`: gpus x gpus.
std::vector<int> ringOrder(const std::vector<double>& pair_gb_per_s, int gpus, std::vector<int> set);

}  // namespace railwise::gpu
