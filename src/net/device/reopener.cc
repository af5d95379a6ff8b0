#include "net/device/reopener.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/background_thread.h"
#include "base/log.h"

namespace railwise::net {
namespace {

constexpr Clock::duration kFirstReopenPause = std::chrono::milliseconds(50);
constexpr Clock::duration kLongestReopenPause = std::chrono::seconds(10);
// Connections without another rail give up after RAILWISE_FAILOVER_TIMEOUT. These pauses allow some attempts
// within that time.
constexpr int kAttemptsInPatience = 16;
// Nothing of a failed device can be freed before the process ends, so a device that fails again and again is
// left alone in the end.
constexpr int kMostLives = 16;
// How often failed attempts are logged.
constexpr int kSaidAttempts = 3;
constexpr int kSaidEvery = 64;

}  // namespace

Reopener::Reopener(const Config& config, EventWatcher& watcher)
    : config_(config), watcher_(watcher), owner_pid_(getpid()) {}

void Reopener::guard(Hca& hca) {
  hca.state().whenFailed([this, &hca] { onFailure(hca); });
}

Clock::duration Reopener::pause(int attempts) const {
  const Clock::duration patience = std::chrono::seconds(config_.failover_timeout_s);
  return std::min({kFirstReopenPause * (1 << std::min(attempts, 10)), kLongestReopenPause,
                   patience / kAttemptsInPatience});
}

void Reopener::onFailure(Hca& hca) {
  if (hca.earlierGenerations() + 1 >= kMostLives) {
    RAILWISE_WARN("%s: it has failed %d times: it is not opened again in this process", hca.name(),
                  kMostLives);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  failed_.push_back({&hca, hca.earlierGenerations(), Clock::now() + pause(hca.earlierGenerations())});
  if (!thread_.joinable()) {
    try {
      thread_ = startBackgroundThread([this] { run(); });
    } catch (const std::system_error& error) {
      RAILWISE_WARN("%s: no thread to open it anew: %s", hca.name(), error.what());
      return;
    }
    pthread_setname_np(thread_.native_handle(), "railwise-reopen");
  }
  changed_.notify_one();
}

void Reopener::stop() {
  if (getpid() != owner_pid_) {
    // In a forked child: the thread does not exist there and can be neither joined nor detached, and nobody
    // could destroy what it waits for.
    if (thread_.joinable()) new (&thread_) std::thread;
    new (&changed_) std::condition_variable;
    return;
  }
  std::thread ended;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ended.swap(thread_);
  }
  changed_.notify_one();
  if (ended.joinable()) ended.join();
}

void Reopener::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto next = std::min_element(failed_.begin(), failed_.end(),
                                       [](const Failed& a, const Failed& b) { return a.due < b.due; });
    if (next == failed_.end()) {
      changed_.wait(lock);
      continue;
    }
    if (next->due > Clock::now()) {
      changed_.wait_until(lock, next->due);
      continue;
    }
    Failed now = *next;
    failed_.erase(next);
    lock.unlock();
    bool opened = false;
    try {
      opened = reopen(now);
    } catch (const std::bad_alloc&) {  // the next attempt may have more
    }
    lock.lock();
    if (opened) continue;
    ++now.attempts;
    now.due = Clock::now() + pause(now.attempts);
    failed_.push_back(now);
  }
}

bool Reopener::reopen(const Failed& failed) {
  Hca& hca = *failed.hca;
  std::string problem;
  Result<std::unique_ptr<Hca>> made = hca.openAnew(config_, problem);
  if (!made.ok()) {
    const bool said_enough = failed.attempts >= kSaidAttempts && failed.attempts % kSaidEvery != 0;
    if (!said_enough) RAILWISE_INFO(log::kNet, "%s: not back yet: %s", hca.name(), problem.c_str());
    return false;
  }
  Hca& fresh = **made;
  guard(fresh);
  // Otherwise nobody would notice its next failure.
  if (!watcher_.watch(fresh.state()).ok()) return false;
  RAILWISE_WARN("%s: opened anew after its failure: connections go back to it", hca.name());
  hca.setNextGeneration(std::move(*made));
  return true;
}

}  // namespace railwise::net
