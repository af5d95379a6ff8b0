// Locks. SharedLock lies in the shared segment and survives the death of its owner: its word holds the token
// of the owning process, and a waiter that finds the owner dead takes the lock over. SpinLock is for the
// threads of one process.
// Lock order, everywhere: send queue (SpinLock) -> receive queue or polling of a completion queue (SpinLocks)
// -> the tables -> a QP's responder -> its SRQ, the word of an atomic operation, a CQ (one after the other)
// -> an agent's lock -> a context's events -> the fault table (SharedLocks, from the tables on). A thread
// that holds a responder's lock or a later one must not wait for the tables: the process that reclaims
// records of dead processes holds the tables and takes all later locks. No thread holds two locks of one
// kind.
#pragma once

#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "softdev/fabric/joining/process_table.h"

namespace railwise::softdev {

inline void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Orders a store before a later load. No weaker memory order does that.
inline void fullFence() {
#if defined(__SANITIZE_THREAD__)  // gcc's ThreadSanitizer has no fences, but understands this
  static std::atomic<uint32_t> everybody{0};
  everybody.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

class SharedLock {
 public:
  // True if the lock was taken from a dead owner: the caller must then repair what the lock protects. All
  // stores of the dead process are visible: the kernel has ended its threads before it reports the death.
  bool lock(const LockOwner& self) {
    uint32_t free = 0;
    if (word_.compare_exchange_strong(free, self.token, std::memory_order_seq_cst)) [[likely]]
      return false;
    return lockSlow(self);
  }
  void unlock() { word_.store(0, std::memory_order_release); }
  uint32_t owner() const { return word_.load(std::memory_order_acquire); }

 private:
  bool lockSlow(const LockOwner& self);

  std::atomic<uint32_t> word_;
};

class SharedLockGuard {
 public:
  SharedLockGuard(SharedLock& lock, const LockOwner& self) : lock_(lock) { lock_.lock(self); }
  ~SharedLockGuard() { lock_.unlock(); }
  SharedLockGuard(const SharedLockGuard&) = delete;
  SharedLockGuard& operator=(const SharedLockGuard&) = delete;

 private:
  SharedLock& lock_;
};

// Gives the core to other threads: by sched_yield() in the first rounds, then by a sleep. Linux 6.18 may let
// two threads that only yield starve the thread that they wait for, and the kernel's own threads, for
// minutes.
inline void giveWay(int round) {
  constexpr int kYields = 64;
  constexpr timespec kPause{0, 50'000};
  if (round < kYields) {
    sched_yield();
  } else {
    (void)nanosleep(&kPause, nullptr);
  }
}

// Meets the requirement Lockable, for std::lock_guard and std::unique_lock.
class SpinLock {
 public:
  void lock() {
    for (int round = 0; busy_.exchange(true, std::memory_order_seq_cst); ++round) wait(round);
  }
  bool try_lock() { return !busy_.exchange(true, std::memory_order_seq_cst); }  // NOLINT: the standard's name
  void unlock() { busy_.store(false, std::memory_order_release); }

 private:
  void wait(int round) const {
    constexpr int kSpins = 64;  // about the duration of one small transfer; longer waits give the core away
    for (int spin = 0; spin < kSpins; ++spin) {
      if (!busy_.load(std::memory_order_relaxed)) return;
      pauseCpu();
    }
    giveWay(round);
  }

  std::atomic<bool> busy_{false};
};

}  // namespace railwise::softdev
