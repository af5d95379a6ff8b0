// Reproducible randomness for faults, placement and the order of work.
#pragma once

#include <cstdint>

namespace railwise::softdev {

// A small generator (splitmix64): good enough to shuffle, one word of state.
class Random {
 public:
  explicit Random(uint64_t seed = 0) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // A number from 0 to bound - 1. `bound` must not be 0.
  uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  uint64_t state_;
};

}  // namespace railwise::softdev
