// The gate between the threads of a rank and the plugin. A rank that has failed closes it, so that nothing
// changes any more what the plugin and its devices have counted. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "base/clock.h"

namespace railwise::cli {

class CallGate {
 public:
  // A thread inside the gate may call the plugin. Not ok(): the gate is closed, and the thread must not.
  class Pass {
   public:
    explicit Pass(CallGate& gate) : gate_(gate) {
      gate_.inside_.fetch_add(1);
      // Sequentially consistent: either this thread sees `closed_`, or close() sees that it is inside.
      ok_ = !gate_.closed_.load();
    }
    ~Pass() { gate_.inside_.fetch_sub(1); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    bool ok() const { return ok_; }

   private:
    CallGate& gate_;
    bool ok_;
  };

  // A thread that stays inside for long asks this between its calls, and leaves.
  bool closed() const { return closed_.load(std::memory_order_relaxed); }

  // Closes the gate for good, and waits until no thread is inside. False: a thread is still inside after
  // `limit`, because a call of the plugin does not return.
  bool close(Clock::duration limit) {
    closed_.store(true);
    const Deadline deadline = Deadline::after(limit);
    while (inside_.load() != 0) {
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
  }

 private:
  std::atomic<bool> closed_{false};
  std::atomic<int> inside_{0};
};

}  // namespace railwise::cli
