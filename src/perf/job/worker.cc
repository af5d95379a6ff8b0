#include "perf/job/worker.h"

#include <pthread.h>

namespace railwise::cli {

Worker::Worker(const char* name, CallGate& gate, std::function<Status()> between)
    : gate_(gate), between_(std::move(between)), thread_([this] { loop(); }) {
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

Status Worker::runInside(const std::function<Status()>& call) {
  const CallGate::Pass pass(gate_);
  return pass.ok() ? call() : Status{Code::kRemote};
}

void Worker::passTime(std::unique_lock<std::mutex>& lock) {
  while (between_ && between_result_.ok() && !stop_ && !busy_) {
    lock.unlock();
    between_result_ = runInside(between_);
    lock.lock();
  }
  changed_.wait(lock, [&] { return stop_ || busy_; });
}

void Worker::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    passTime(lock);
    if (stop_) return;
    lock.unlock();
    const Status result = between_result_.ok() ? runInside(job_) : between_result_;
    lock.lock();
    result_ = result;
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace railwise::cli
