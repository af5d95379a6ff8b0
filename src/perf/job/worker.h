// A named thread that runs one job at a time for the main thread: NCCL's "service" and "progress" threads.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "perf/job/call_gate.h"

namespace railwise::cli {

class Worker {
 public:
  // `name`: at most 15 characters. Jobs call the plugin, inside `gate`, which outlives the worker.
  Worker(const char* name, CallGate& gate);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Runs `job` on the worker's thread and waits for it. kRemote: the gate is closed, and nothing runs.
  Status run(std::function<Status()> job);

 private:
  void loop();
  Status runInside();

  CallGate& gate_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<Status()> job_;
  Status result_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace railwise::cli
