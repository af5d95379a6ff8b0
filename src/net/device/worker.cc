#include "net/device/worker.h"

#include <pthread.h>
#include <unistd.h>

#include <new>
#include <system_error>
#include <utility>

#include "base/background_thread.h"
#include "base/process.h"

namespace railwise::net {

Worker::Worker(const char* thread_name, Clock::duration idle)
    : thread_name_(thread_name), owner_pid_(processId()), work_(std::make_shared<Work>(idle)) {}

bool Worker::inForkedChild() const { return processId() != owner_pid_; }

bool Worker::add(Clock::time_point begin, std::function<void()> job) {
  if (inForkedChild()) return false;
  const std::lock_guard lock(work_->mutex);
  if (work_->ending) return false;
  try {
    if (work_->ended) thread_.join();  // it was idle; having said so, it takes no lock any more
    work_->ended = false;
    if (!thread_.joinable()) {
      thread_ = startBackgroundThread([work = work_] { serve(*work); });
      pthread_setname_np(thread_.native_handle(), thread_name_);
    }
    work_->jobs.emplace(begin, std::move(job));
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const std::system_error&) {
    return false;
  }
  work_->changed.notify_all();
  return true;
}

bool Worker::finish(Clock::duration patience) {
  if (inForkedChild()) {
    forgetThread(thread_);  // its shared_ptr keeps the condition variable, which could not be destroyed here
    return true;
  }
  {
    std::unique_lock lock(work_->mutex);
    if (left_ || !thread_.joinable()) return !left_;
    work_->ending = true;
    work_->changed.notify_all();
    unsigned done = 0;
    do {
      done = work_->done;
      work_->changed.wait_for(lock, patience, [&] { return work_->ended || work_->done != done; });
    } while (!work_->ended && work_->done != done);
    left_ = !work_->ended;
  }
  left_ ? thread_.detach() : thread_.join();
  return !left_;
}

bool Worker::late() const {
  const Clock::rep began = work_->began.load(std::memory_order_acquire);
  return began != 0 && Clock::now().time_since_epoch() - Clock::duration(began) > Patience::kDriverSilent;
}

void Worker::serve(Work& work) {
  std::unique_lock lock(work.mutex);
  for (;;) {
    if (work.jobs.empty()) {
      const auto wanted = [&] { return work.ending || !work.jobs.empty(); };
      if (work.ending || !work.changed.wait_for(lock, work.idle, wanted)) break;
      continue;
    }
    const auto first = work.jobs.begin();
    if (const Clock::time_point begin = first->first; begin > Clock::now() && !work.ending) {
      work.changed.wait_until(lock, begin);
      continue;
    }
    std::function<void()> job = std::move(first->second);
    work.jobs.erase(first);
    work.began.store(Clock::now().time_since_epoch().count(), std::memory_order_release);
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
    work.began.store(0, std::memory_order_release);
    ++work.done;
    work.changed.notify_all();
  }
  work.ended = true;
  work.changed.notify_all();
}

}  // namespace railwise::net
