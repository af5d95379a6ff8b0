#include "gpu/choose/ring.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>

namespace railwise::gpu {
namespace {

constexpr std::size_t kMostExact = 10;
constexpr int64_t kNoRing = -1;

// Bandwidths between the members of the set, in MB/s.
class RingPairs {
 public:
  RingPairs(const std::vector<double>& pair_gb_per_s, int gpus, const std::vector<int>& set)
      : size_(set.size()) {
    for (const int a : set)
      for (const int b : set)
        mbps_.push_back(
            a == b ? 0
                   : std::llround(pair_gb_per_s[static_cast<std::size_t>(a) * static_cast<std::size_t>(gpus) +
                                                static_cast<std::size_t>(b)] *
                                  1000));
  }
  std::size_t size() const { return size_; }
  int64_t at(std::size_t a, std::size_t b) const { return mbps_[a * size_ + b]; }

 private:
  std::size_t size_;
  std::vector<int64_t> mbps_;
};

// The best ring in which no pair of neighbours is slower than `slowest`, by Held and Karp's table of (members
// that the ring has visited, the last of them). Empty: there is none.
std::vector<std::size_t> ringOf(const RingPairs& pairs, int64_t slowest) {
  const std::size_t size = pairs.size();
  const std::size_t all = (std::size_t{1} << size) - 1;
  std::vector<int64_t> rest((all + 1) * size,
                            kNoRing);  // the most bandwidth from there back to the first member
  const auto step = [&](std::size_t visited, std::size_t last, std::size_t next) {
    const std::size_t bit = std::size_t{1} << next;
    if ((visited & bit) != 0 || pairs.at(last, next) < slowest) return kNoRing;
    const int64_t behind = rest[(visited | bit) * size + next];
    return behind == kNoRing ? kNoRing : behind + pairs.at(last, next);
  };
  for (std::size_t visited = all; visited > 0; --visited)
    for (std::size_t last = 0; last < size; ++last) {
      int64_t& best = rest[visited * size + last];
      if (visited == all && pairs.at(last, 0) >= slowest) best = pairs.at(last, 0);
      for (std::size_t next = 1; next < size; ++next) best = std::max(best, step(visited, last, next));
    }
  std::vector<std::size_t> order = {0};
  std::size_t visited = 1;
  if (rest[size] == kNoRing) return {};
  while (order.size() < size) {
    const std::size_t last = order.back();
    std::size_t next = 1;
    while (step(visited, last, next) == kNoRing || step(visited, last, next) != rest[visited * size + last])
      ++next;
    order.push_back(next);
    visited |= std::size_t{1} << next;
  }
  return order;
}

std::vector<std::size_t> exactRing(const RingPairs& pairs) {
  std::set<int64_t, std::greater<>> values;
  for (std::size_t a = 0; a < pairs.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) values.insert(pairs.at(a, b));
  for (const int64_t slowest : values)
    if (auto order = ringOf(pairs, slowest); !order.empty()) return order;
  return {};  // not reached: the slowest value allows every ring
}

std::vector<std::size_t> greedyRing(const RingPairs& pairs) {
  std::vector<std::size_t> order = {0};
  std::vector<bool> used(pairs.size());
  used[0] = true;
  while (order.size() < pairs.size()) {
    std::size_t best = pairs.size();
    for (std::size_t next = 0; next < pairs.size(); ++next)
      if (!used[next] &&
          (best == pairs.size() || pairs.at(order.back(), next) > pairs.at(order.back(), best)))
        best = next;
    used[best] = true;
    order.push_back(best);
  }
  return order;
}

}  // namespace

std::vector<int> ringOrder(const std::vector<double>& pair_gb_per_s, int gpus, std::vector<int> set) {
  std::sort(set.begin(), set.end());
  if (set.size() < 3) return set;
  const RingPairs pairs(pair_gb_per_s, gpus, set);
  std::vector<int> order;
  for (const std::size_t at : set.size() <= kMostExact ? exactRing(pairs) : greedyRing(pairs))
    order.push_back(set[at]);
  return order;
}

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
