// Monotonic time for deadlines. Thread-safe. Reading it is a vDSO call of about 20 ns, so keep it off the
// data path.
#pragma once

#include <chrono>
#include <cstdint>

namespace railwise {

using Clock = std::chrono::steady_clock;

// Nanoseconds since an unspecified moment: use only differences.
inline uint64_t nowNs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count());
}

// Nanoseconds since 1970.
inline uint64_t unixNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

class Deadline {
 public:
  static Deadline after(Clock::duration duration) { return Deadline(Clock::now() + duration); }
  bool passed() const { return Clock::now() >= at_; }
  Clock::time_point at() const { return at_; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace railwise
