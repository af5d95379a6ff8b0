// How well the hosts and GPUs of a job fit together, as one number from 0 to 1. Pure; thread-safe.
#pragma once

#include <vector>

namespace railwise::gpu {

// The weight of the part between hosts in the fitness of several hosts.
inline constexpr double kInterWeight = 0.7;

// The slowest pair of `set` / the fastest pair of the host: 1 for a set of one, 0 where no pair has a link.
double intraFitness(const std::vector<double>& pair_gb_per_s, int gpus, const std::vector<int>& set);

// 1 - groups that the job touches / groups that there are: the fewer switch groups the better.
double interFitness(int groups_needed, int groups_available);

// kInterWeight x inter + (1 - kInterWeight) x intra; on one host intra alone, since no traffic leaves it.
double totalFitness(int hosts, double inter, double intra);

}  // namespace railwise::gpu
