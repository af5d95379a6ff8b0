// A pool of N objects that are stored inside the pool. take() and give() cost a few instructions and never
// allocate or search. Not thread-safe: a pool belongs to one thread at a time.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace railwise {

template <typename T, std::size_t N>
class FixedPool {
  static_assert(N > 0 && N <= UINT16_MAX);

 public:
  FixedPool() {
    for (std::size_t i = 0; i < N; ++i) free_[i] = static_cast<uint16_t>(N - 1 - i);
  }

  // Null when all objects are taken.
  T* take() { return free_count_ == 0 ? nullptr : &objects_[free_[--free_count_]]; }
  void give(T* object) {
    assert(free_count_ < N);
    free_[free_count_++] = static_cast<uint16_t>(indexOf(object));
  }

  std::size_t indexOf(const T* object) const {
    const auto index = static_cast<std::size_t>(object - objects_.data());
    assert(index < N);
    return index;
  }
  T& operator[](std::size_t index) { return objects_[index]; }
  std::size_t taken() const { return N - free_count_; }

 private:
  std::array<T, N> objects_ = {};
  std::array<uint16_t, N> free_;
  std::size_t free_count_ = N;
};

}  // namespace railwise
