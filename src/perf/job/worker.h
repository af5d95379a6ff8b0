// The threads of a rank: what they do, whether they make progress, and when they may call the plugin.
#pragma once

#include <sched.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/status.h"

namespace railwise::cli {

// The gate between the threads of a rank and the plugin. A rank that has failed closes it, so that nothing
// changes any more what the plugin and its devices have counted. Thread-safe.

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

// A named thread that runs one job at a time for the main thread: NCCL's "service" and "progress" threads.
class Worker {
 public:
  // `name`: at most 15 characters. Jobs call the plugin, inside `gate`, which outlives the worker. `between`
  // is called again and again while there is no job, inside the gate, and gives the core away. Null: nothing
  // is.
  Worker(const char* name, CallGate& gate, std::function<Status()> between = nullptr);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Runs `job` on the worker's thread and waits for it. kRemote: the gate is closed, and nothing runs. If
  // `between` has failed, nothing runs any more, and its result is that of all jobs.
  Status run(std::function<Status()> job);

 private:
  void loop();
  // Calls `between_` until there is a job.
  void passTime(std::unique_lock<std::mutex>& lock);
  Status runInside(const std::function<Status()>& call);

  CallGate& gate_;
  const std::function<Status()> between_;
  Status between_result_;  // used by the worker's thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<Status()> job_;
  Status result_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

// What this rank does, and whether it makes progress: the phase in words, for messages, and a counter that
// the bootstrap's watchdog checks. Thread-safe.

class Activity {
 public:
  void tick() { ticks_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t ticks() const { return ticks_.load(std::memory_order_relaxed); }

  // Sets the phase ("waiting for the other ranks ..."). A new phase counts as progress.
  void setPhase(std::string phase) {
    const std::lock_guard lock(mutex_);
    phase_ = std::move(phase);
    tick();
  }
  // Sets a function that says what the phase waits for. text() calls it. Null: there is nothing to add.
  void setDetail(std::function<std::string()> detail) {
    const std::lock_guard lock(mutex_);
    detail_ = std::move(detail);
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    const std::string detail = detail_ ? detail_() : std::string();
    return detail.empty() ? phase_ : phase_ + ", " + detail;
  }

 private:
  std::atomic<uint64_t> ticks_{0};
  mutable std::mutex mutex_;
  std::string phase_ = "starting";
  std::function<std::string()> detail_;
};

// The first failure of this rank, in words. Later failures are consequences of it and are not kept.
// Thread-safe.
class FailureNote {
 public:
  // `result` is the result of the plugin's call, if a call failed; otherwise 0.
  void set(std::string text, int result = 0) {
    const std::lock_guard lock(mutex_);
    if (!text_.empty()) return;
    text_ = std::move(text);
    result_ = result;
  }
  int result() const {
    const std::lock_guard lock(mutex_);
    return result_;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  int result_ = 0;
};

// Decides what a rank does when it polls and finds nothing. The rank yields its core, as NCCL's proxy thread
// does. If there are more ranks than cores, and polling has found nothing for a long time, the rank sleeps a
// little: then a peer does not run or a path is lost, and other ranks can use the core. One thread.

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
