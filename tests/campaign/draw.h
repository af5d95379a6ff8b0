// Random choices that depend only on a seed, and are the same with every compiler and library (SplitMix64).
// Different purposes use different streams, so that a change in one does not change the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace railwise::cli {

class Draw {
 public:
  Draw(uint64_t seed, uint64_t stream) : state_(mix(seed) ^ mix(~stream)) {}

  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15); }
  // A number from 0 to n - 1.
  uint64_t below(uint64_t n) { return next() % n; }
  int between(int low, int high) {
    return low + static_cast<int>(below(static_cast<uint64_t>(high - low) + 1));
  }
  bool chance(int percent) { return below(100) < static_cast<uint64_t>(percent); }
  template <typename T, std::size_t kCount>
  const T& oneOf(const T (&list)[kCount]) {
    return list[below(kCount)];
  }
  // Draws an index; each index has the probability of its weight divided by the sum of the weights.
  std::size_t weighted(std::span<const int> weights) {
    uint64_t sum = 0;
    for (const int weight : weights) sum += static_cast<uint64_t>(weight);
    uint64_t at = below(sum);
    std::size_t index = 0;
    while (at >= static_cast<uint64_t>(weights[index])) at -= static_cast<uint64_t>(weights[index++]);
    return index;
  }

 private:
  static constexpr uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  uint64_t state_;
};

}  // namespace railwise::cli
