// The order of GPUs in a ring, and how well the GPUs of a job fit together. Pure; thread-safe.
#pragma once

#include <vector>

namespace railwise::gpu {

// `set` in an order in which neighbours (the last and the first, too) are near: the slowest pair of
// neighbours has the most bandwidth, then all of them together. Begins with the lowest number; of equal
// orders the lowest one. Exact up to 10 GPUs; above, always the fastest unused neighbour comes next.
// `pair_gb_per_s`: gpus x gpus.
std::vector<int> ringOrder(const std::vector<double>& pair_gb_per_s, int gpus, std::vector<int> set);

// How well the hosts and GPUs of a job fit together, as one number from 0 to 1.

// The weight of the part between hosts in the fitness of several hosts.
inline constexpr double kInterWeight = 0.7;

// The slowest pair of `set` / the fastest pair of the host: 1 for a set of one, 0 where no pair has a link.
double intraFitness(const std::vector<double>& pair_gb_per_s, int gpus, const std::vector<int>& set);

// 1 - groups that the job touches / groups that there are: the fewer switch groups the better.
double interFitness(int groups_needed, int groups_available);

// kInterWeight x inter + (1 - kInterWeight) x intra; on one host intra alone, since no traffic leaves it.
double totalFitness(int hosts, double inter, double intra);

}  // namespace railwise::gpu
