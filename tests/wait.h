// Waits of tests. Each has a deadline that no machine needs, so that what never comes fails the test that
// waits for it, and the failure says where:
//   for (Patience patience; send == nullptr; patience.again()) send = loop.send(0, 64);
//   waitUntil([&] { return state.fatal(); });
#pragma once

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "base/clock.h"

namespace railwise::test {

class Patience {
 public:
  explicit Patience(const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : file_(file), line_(line) {}

  // Throws once the time is over: GoogleTest reports the text, and in another thread the program ends with
  // it.
  void again() {
    if (++turns_ % kTurnsPerLook == 0 && deadline_.passed())
      throw std::runtime_error(std::string(file_) + ":" + std::to_string(line_) +
                               ": what the test waits for has not come within a minute");
  }

 private:
  static constexpr unsigned kTurnsPerLook = 64;  // the clock costs more than a turn
  const Deadline deadline_ = Deadline::after(std::chrono::minutes(1));
  const char* const file_;
  const int line_;
  unsigned turns_ = 0;
};

template <typename Condition>
void waitUntil(Condition&& condition, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  for (Patience patience(file, line); !condition(); patience.again()) sched_yield();
}

// For a forked child: it ends, also when its parent has not lived to wait for it or to kill it.
inline void endInTwoMinutes() { alarm(120); }
[[noreturn]] inline void waitToBeKilled() {
  endInTwoMinutes();
  for (;;) pause();
}

}  // namespace railwise::test
