// Random choices that follow from a seed alone, the same with every compiler and library (SplitMix64). What
// different things are drawn for are different streams, so that one does not change with the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace railwise::tools {

class Draw {
 public:
  Draw(uint64_t seed, uint64_t stream) : state_(mix(seed) ^ mix(~stream)) {}

  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15); }
  // 0 to n - 1.
  uint64_t below(uint64_t n) { return next() % n; }
  int between(int low, int high) {
    return low + static_cast<int>(below(static_cast<uint64_t>(high - low) + 1));
  }
  bool chance(int percent) { return below(100) < static_cast<uint64_t>(percent); }
  template <typename T, std::size_t kCount>
  const T& oneOf(const T (&list)[kCount]) {
    return list[below(kCount)];
  }
  // The index of a weight, as often as the weight is of their sum.
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

}  // namespace railwise::tools
