// A rank that polls and finds nothing. It offers its core, as NCCL's proxy thread does; where ranks outnumber
// the cores it sleeps a little once that has been in vain for long: then a peer does not run, or a way is
// lost, and others have use for the core. One thread.
#pragma once

#include <sched.h>
#include <time.h>

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace railwise::tools {

class IdleWait {
 public:
  explicit IdleWait(bool cores_are_few) : cores_are_few_(cores_are_few) {}

  void moved() {
    rounds_ = 0;
    long_ = false;
  }

  // For each round in which nothing moved.
  void idle() {
    if (++rounds_ <= kSpins) return;
    if (rounds_ % kRoundsOfALook == 0) look();
    constexpr timespec kNap{0, 50'000};
    if (long_ && cores_are_few_) {
      ++naps_;
      (void)nanosleep(&kNap, nullptr);
    } else {
      sched_yield();
    }
  }

  // How often it has slept.
  uint64_t naps() const { return naps_; }

 private:
  static constexpr uint32_t kSpins = 16;
  static constexpr uint32_t kRoundsOfALook = 64;
  static constexpr Clock::duration kLong = std::chrono::milliseconds(10);  // a nap at its end is a percent

  void look() {
    const Clock::time_point now = Clock::now();
    if (rounds_ == kRoundsOfALook) since_ = now;
    long_ = now - since_ > kLong;
  }

  const bool cores_are_few_;
  uint64_t naps_ = 0;
  uint32_t rounds_ = 0;
  bool long_ = false;
  Clock::time_point since_;
};

}  // namespace railwise::tools
