#include "gpu/choose/fitness.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace railwise::gpu {

double intraFitness(const std::vector<double>& pair_gb_per_s, int gpus, const std::vector<int>& set) {
  if (set.size() < 2) return 1;
  const auto n = static_cast<std::size_t>(gpus);
  double slowest = std::numeric_limits<double>::max();
  double fastest = 0;
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = a + 1; b < n; ++b) fastest = std::max(fastest, pair_gb_per_s[a * n + b]);
  for (const int a : set)
    for (const int b : set)
      if (a != b)
        slowest =
            std::min(slowest, pair_gb_per_s[static_cast<std::size_t>(a) * n + static_cast<std::size_t>(b)]);
  return fastest > 0 ? slowest / fastest : 0;
}

double interFitness(int groups_needed, int groups_available) {
  return groups_available > 0 ? 1 - static_cast<double>(groups_needed) / groups_available : 0;
}

double totalFitness(int hosts, double inter, double intra) {
  return hosts > 1 ? kInterWeight * inter + (1 - kInterWeight) * intra : intra;
}

}  // namespace railwise::gpu
