// Processes that a schedule stops for a while. Who goes on does so in time, whatever the caller waits for
// meanwhile: a stopped process may hold a lock of the software device's fabric. One thread calls.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace railwise::cli {

class Pauses {
 public:
  Pauses() = default;
  Pauses(const Pauses&) = delete;
  Pauses& operator=(const Pauses&) = delete;
  ~Pauses() { endAll(); }

  // Stops the host's processes. They get SIGCONT after `length` at the latest.
  void begin(const std::string& host, std::vector<pid_t> processes, std::chrono::milliseconds length);
  // Ends the host's first pause. None: does nothing.
  void end(const std::string& host);
  void endAll() { running_.clear(); }
  bool any() const { return !running_.empty(); }

 private:
  // Its thread sleeps, and sends SIGCONT when the time is over or when the pause is destroyed.
  class Pause {
   public:
    Pause(std::vector<pid_t> processes, std::chrono::milliseconds length);
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause();

   private:
    std::mutex mutex_;
    std::condition_variable ends_;
    bool over_ = false;  // under mutex_
    std::thread thread_;
  };

  std::multimap<std::string, Pause> running_;
};

}  // namespace railwise::cli
