// Decides what a rank does when it polls and finds nothing. The rank yields its core, as NCCL's proxy thread
// does. If there are more ranks than cores, and polling has found nothing for a long time, the rank sleeps a
// little: then a peer does not run or a path is lost, and other ranks can use the core. One thread.
#pragma once

#include <sched.h>
#include <time.h>

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace railwise::cli {

class IdleWait {
 public:
  explicit IdleWait(bool cores_are_few) : cores_are_few_(cores_are_few) {}

  void moved() {
    rounds_ = 0;
    long_ = false;
  }

  // Call it for each round in which nothing moved.
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

  // How often the rank has slept.
  uint64_t naps() const { return naps_; }

 private:
  static constexpr uint32_t kSpins = 16;
  static constexpr uint32_t kRoundsOfALook = 64;
  // A sleep at the end of such a wait lengthens it by one percent at most.
  static constexpr Clock::duration kLong = std::chrono::milliseconds(10);

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

}  // namespace railwise::cli
