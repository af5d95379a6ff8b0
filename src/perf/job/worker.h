// A named thread that runs one job at a time for the main thread: NCCL's "service" and "progress" threads.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/status.h"

namespace railwise::cli {

class Worker {
 public:
  explicit Worker(const char* name);  // at most 15 characters
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Runs `job` on the worker's thread and waits for it.
  Status run(std::function<Status()> job);

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<Status()> job_;
  Status result_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace railwise::cli
