// A mutex for what is locked often and hardly ever by two threads at once: 2 atomic operations inline where
// nobody waits, and a futex where somebody does. With std::lock_guard and std::unique_lock, as std::mutex.
#pragma once

#include <atomic>
#include <cstdint>

namespace railwise {

class LightMutex {
 public:
  LightMutex() = default;
  LightMutex(const LightMutex&) = delete;
  LightMutex& operator=(const LightMutex&) = delete;

  void lock() {
    if (!try_lock()) [[unlikely]]
      lockSlowly();
  }
  bool try_lock() {
    uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      state_.notify_one();
  }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kAwaited = 2;

  // Who comes from here holds it as kAwaited: there may be others.
  [[gnu::cold, gnu::noinline]] void lockSlowly() {
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree)
      state_.wait(kAwaited, std::memory_order_relaxed);
  }

  std::atomic<uint32_t> state_ = kFree;
};

}  // namespace railwise
