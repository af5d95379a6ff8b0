#include "perf/job/worker.h"

#include <pthread.h>

namespace railwise::cli {

Worker::Worker(const char* name, CallGate& gate) : gate_(gate), thread_([this] { loop(); }) {
  pthread_setname_np(thread_.native_handle(), name);
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status Worker::run(std::function<Status()> job) {
  std::unique_lock lock(mutex_);
  job_ = std::move(job);
  busy_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !busy_; });
  return result_;
}

Status Worker::runInside() {
  const CallGate::Pass pass(gate_);
  return pass.ok() ? job_() : Status{Code::kRemote};
}

void Worker::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || busy_; });
    if (stop_) return;
    lock.unlock();
    const Status result = runInside();
    lock.lock();
    result_ = result;
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace railwise::cli
