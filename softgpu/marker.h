// Something that happens once, at a moment: the end of what an event recorded. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace softgpu {

class Marker {
 public:
  bool done() const { return done_.load(std::memory_order_acquire) != 0; }
  void finish() {
    at_ = std::chrono::steady_clock::now();
    done_.store(1, std::memory_order_release);
    done_.notify_all();
  }
  void wait() const {
    while (!done()) done_.wait(0, std::memory_order_acquire);
  }
  // Only after done().
  std::chrono::steady_clock::time_point at() const { return at_; }

 private:
  std::atomic<uint32_t> done_ = 0;
  std::chrono::steady_clock::time_point at_;
};

}  // namespace softgpu
