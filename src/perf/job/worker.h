// A named thread that runs one job at a time for the main thread: NCCL's "service" and "progress" threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
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

}  // namespace railwise::cli
