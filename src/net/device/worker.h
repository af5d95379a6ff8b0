// Runs jobs one after the other in a thread of its own: calls of a driver that NCCL's thread must not wait
// for. Threads: any thread may call run(); one calls finish().
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "net/patience.h"

namespace railwise::net {

class Worker {
 public:
  // `thread_name`: up to 15 characters; lives as long as the worker. The thread begins with the first job,
  // and ends when there was none for `idle`; the next job begins another.
  explicit Worker(const char* thread_name, Clock::duration idle = Patience::kDriverThreadIdle);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { (void)finish(Patience::kDriverSilent); }

  // False: there is no thread or no memory for it, or this is a forked child, which has no such thread. The
  // job was not taken.
  bool run(std::function<void()> job) { return add({}, std::move(job)); }
  // Like run(), but the job begins after `pause`. Jobs of run() go on meanwhile.
  bool runAfter(Clock::duration pause, std::function<void()> job) {
    return add(Clock::now() + pause, std::move(job));
  }
  // A forked child has no such thread.
  bool inForkedChild() const;
  // Waits until all jobs are done, those that wait for their time at once, and ends the thread. False: for
  // `patience` none has ended. The thread is left behind and ends by itself; what its jobs use must stay. In
  // a forked child it waits for nothing.
  bool finish(Clock::duration patience);
  // Has a job been running for longer than Patience::kDriverSilent? Any thread; cheap.
  bool late() const;

 private:
  // What the thread works on. It may outlive the worker.
  struct Work {
    explicit Work(Clock::duration idle_limit) : idle(idle_limit) {}
    const Clock::duration idle;
    std::mutex mutex;  // guards the members below
    std::condition_variable changed;
    std::multimap<Clock::time_point, std::function<void()>> jobs;  // by the time when they may begin
    unsigned done = 0;
    bool ending = false;
    bool ended = false;
    std::atomic<Clock::rep> began{0};  // when the job that runs now began; 0: none runs
  };
  bool add(Clock::time_point begin, std::function<void()> job);
  static void serve(Work& work);

  const char* const thread_name_;
  const int owner_pid_;
  const std::shared_ptr<Work> work_;
  std::thread thread_;  // guarded by work_->mutex
  bool left_ = false;   // finish() has left the thread behind
};

}  // namespace railwise::net
