#include "tests/campaign/pauses.h"

#include <signal.h>

#include <tuple>
#include <utility>

#include "base/background_thread.h"

namespace railwise::cli {
namespace {

void signalAll(const std::vector<pid_t>& processes, int signal) {
  for (const pid_t process : processes) (void)kill(process, signal);
}

}  // namespace

Pauses::Pause::Pause(std::vector<pid_t> processes, std::chrono::milliseconds length) {
  signalAll(processes, SIGSTOP);
  thread_ = startBackgroundThread([this, length, stopped = std::move(processes)] {
    std::unique_lock lock(mutex_);
    ends_.wait_for(lock, length, [this] { return over_; });
    signalAll(stopped, SIGCONT);
  });
}

Pauses::Pause::~Pause() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  ends_.notify_one();
  thread_.join();
}

void Pauses::begin(const std::string& host, std::vector<pid_t> processes, std::chrono::milliseconds length) {
  running_.emplace(std::piecewise_construct, std::forward_as_tuple(host),
                   std::forward_as_tuple(std::move(processes), length));
}

void Pauses::end(const std::string& host) {
  if (const auto first = running_.find(host); first != running_.end()) running_.erase(first);
}

}  // namespace railwise::cli
