// Monotonic time for deadlines. Thread-safe; a vDSO call of some 20 ns, so keep it off the data path.
#pragma once

#include <chrono>

namespace railwise {

using Clock = std::chrono::steady_clock;

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
