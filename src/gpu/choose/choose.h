// Which k of n GPUs a job should take, and why. The first of these rules that tells two sets apart decides:
//   a. the set whose slowest pair of GPUs has the most bandwidth;
//   b. the set whose pairs have the most bandwidth together;
//   c. the set in which the most GPUs have a NIC of their own; then the nearest NICs (the least sum of
//   ranks);
//      then the NICs with the most bandwidth together;
//   d. the set on the fewest NUMA nodes (of up to exhaustive_up_to usable GPUs);
//   e. the set with the lowest numbers.
// One GPU has no pair: c and e decide. Bandwidths are compared in whole MB/s. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/outcome.h"

namespace railwise::gpu {

// The order of GPUs in a ring, and how well the GPUs of a job fit together. Pure; thread-safe.

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

// A NIC as one GPU sees it.
struct NicCandidate {
  int nic = -1;      // any number that names the NIC, 0 or more
  int nearness = 0;  // rank: lower is nearer, 0 or more
  double gb_per_s = 0;
};

struct ChoiceQuestion {
  int gpus = 0;
  std::vector<double> pair_gb_per_s;            // gpus x gpus, symmetric; 0: no link
  std::vector<std::vector<NicCandidate>> nics;  // for each GPU; empty: no NICs
  std::vector<int> numa;                        // the NUMA node of each GPU; empty: not known
  std::optional<std::vector<int>> allowed;      // without: all GPUs
  std::vector<int> excluded;
  std::vector<int> occupied;
  // With up to so many usable GPUs every set is looked at. Above, GPUs with equal links count as classes.
  int exhaustive_up_to = 16;
};

// What the rules compare.
struct Score {
  int64_t slowest_pair_mbps = 0;  // 0 also where there is no pair
  int64_t all_pairs_mbps = 0;
  int with_nic = 0;          // GPUs with a NIC of their own
  int64_t nearness_sum = 0;  // over these NICs
  int64_t nic_mbps = 0;      // over these NICs
  int numa_nodes = 0;        // 0: not known

  bool operator==(const Score&) const = default;
  bool betterThan(const Score& other) const;
};

struct GpuSet {
  std::vector<int> gpus;  // ascending
  std::vector<int> nics;  // the NIC that each of `gpus` has for itself; -1: none
  Score score;
};

struct ChoiceAnswer {
  GpuSet best;
  // The next best set with another score. Above exhaustive_up_to only sets with other links are looked at.
  std::optional<GpuSet> second;
  // How many other sets have the score of the best. Empty: not counted.
  std::optional<double> equally_good;
  // False: too many sets to look at all of them; the best of those that were looked at is the answer.
  bool exact = true;
};

// An error: fewer usable GPUs than `count`, or a malformed question; the text says which.
Outcome<ChoiceAnswer> chooseGpus(const ChoiceQuestion& question, int count);

// Why `answer.best`: "better than GPUs 0 and 1: its slowest pair has 371 GB/s, against 48 GB/s; 2 other sets
// are equally good, and this one has the lowest numbers". `numbers`: what to call each GPU; empty: its index.
std::string whyText(const ChoiceAnswer& answer, const std::vector<int>& numbers = {});

// In which way the first score is better: "its slowest pair has 371 GB/s, against 48 GB/s".
std::string whyBetter(const Score& better, const Score& worse);

// "0, 1 and 5"
std::string namesText(const std::vector<int>& gpus, const std::vector<int>& numbers = {});

}  // namespace railwise::gpu
