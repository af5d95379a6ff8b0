// Which GPU of a set gets which NIC for itself, and how good that is. Internal to choose.cc. Pure;
// thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace railwise::gpu {

// A NIC that a GPU may use; bandwidths in MB/s, so that sums are exact.
struct NicEdge {
  int nic = -1;  // 0 ... nics - 1
  int64_t nearness = 0;
  int64_t mbps = 0;
};

// What a matching costs: less is better. GPUs without a NIC of their own count most, then the ranks of
// nearness, then the bandwidth (negative, since more is better).
struct NicCost {
  int64_t without = 0;
  int64_t nearness = 0;
  int64_t minus_mbps = 0;

  auto operator<=>(const NicCost&) const = default;
  NicCost operator+(const NicCost& other) const {
    return {without + other.without, nearness + other.nearness, minus_mbps + other.minus_mbps};
  }
  NicCost operator-(const NicCost& other) const {
    return {without - other.without, nearness - other.nearness, minus_mbps - other.minus_mbps};
  }
};

struct NicMatch {
  NicCost cost;
  std::vector<int> gpus;  // ascending
  std::vector<int> nics;  // of each of `gpus`; -1: none of its own
};

// The cheapest matching of exactly these GPUs. `edges` of all GPUs.
NicMatch matchNics(const std::vector<std::vector<NicEdge>>& edges, int nics, const std::vector<int>& gpus);

// GPUs that may stand for one another but for their NICs, and how many of them are wanted.
struct Quota {
  std::vector<int> gpus;  // ascending
  int wanted = 0;
};
// The set with `wanted` GPUs of each quota whose matching is cheapest; of several such sets the one with the
// lowest indices.
NicMatch matchQuotas(const std::vector<std::vector<NicEdge>>& edges, int nics,
                     const std::vector<Quota>& quotas);

}  // namespace railwise::gpu
