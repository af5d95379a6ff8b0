#include "net/device/reopener.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/background_thread.h"
#include "base/log.h"
#include "base/process.h"
#include "net/patience.h"
#include "record/writer.h"
#include "verbs/library.h"

namespace railwise::net {
namespace {

// Nothing of a failed device can be freed before the process ends, so a device that fails again and again is
// left alone in the end.
constexpr int kMostLives = 16;
// How often failed attempts are logged.
constexpr int kSaidAttempts = 3;
constexpr int kSaidEvery = 64;

// Without memory the attempt has failed; the next one may have more.
Result<std::unique_ptr<Hca>> tryToOpen(const HcaIdentity& identity, const Config& config,
                                       std::string& problem) {
  try {
    return Hca::openAnew(identity, config, problem);
  } catch (const std::bad_alloc&) {
    return Status{Code::kSystem, ENOMEM};
  }
}

}  // namespace

Reopener::Reopener(const Config& config, EventWatcher& watcher)
    : watcher_(watcher), owner_pid_(processId()), work_(new Work{.config = config}) {}

void Reopener::guard(Hca& hca) {
  hca.state().whenFailed([this, &hca] { onFailure(hca); });
}

Clock::duration Reopener::pause(const Config& config, int attempts) {
  return Patience(config.failover_timeout_s).reopenPause(attempts);
}

void Reopener::onFailure(Hca& hca) {
  if (hca.earlierGenerations() + 1 >= kMostLives) {
    RAILWISE_WARN("%s: it has failed %d times: it is not opened again in this process", hca.name(),
                  kMostLives);
    return;
  }
  const std::lock_guard lock(work_->mutex);
  if (work_->stopping) return;
  try {
    const int attempts = hca.earlierGenerations();
    work_->failed.push_back({&hca, attempts, Clock::now() + pause(work_->config, attempts)});
  } catch (const std::bad_alloc&) {
    RAILWISE_WARN("%s: no memory to open it anew", hca.name());
    return;
  }
  if (!thread_.joinable()) {
    try {
      thread_ = startBackgroundThread([this, work = work_] { run(work); });
    } catch (const std::system_error& error) {
      RAILWISE_WARN("%s: no thread to open it anew: %s", hca.name(), error.what());
      return;
    }
    pthread_setname_np(thread_.native_handle(), "railwise-reopen");
  }
  work_->changed.notify_all();
}

void Reopener::stop() {
  if (processId() != owner_pid_) {
    forgetThread(thread_);  // its shared_ptr keeps the condition variable, which could not be destroyed here
    return;
  }
  std::thread ended;
  {
    std::unique_lock lock(work_->mutex);
    if (work_->left) return;
    work_->stopping = true;
    work_->changed.notify_all();
    ended.swap(thread_);
    work_->left = !work_->changed.wait_for(lock, Patience::kReopenerEnds, [this] { return !work_->opening; });
  }
  if (!ended.joinable()) return;
  if (!work_->left) return ended.join();
  verbs::keepLoaded();
  RAILWISE_INFO(log::kNet, "the driver of a failed device does not answer: its thread is left behind");
  ended.detach();
}

// Once it has seen `stopping`, it touches only `work`: this object may be gone.
void Reopener::run(const std::shared_ptr<Work>& work) {
  std::unique_lock lock(work->mutex);
  while (!work->stopping) {
    const auto next = std::min_element(work->failed.begin(), work->failed.end(),
                                       [](const Failed& a, const Failed& b) { return a.due < b.due; });
    if (next == work->failed.end()) {
      work->changed.wait(lock);
      continue;
    }
    if (const Clock::time_point due = next->due; due > Clock::now()) {
      work->changed.wait_until(lock, due);  // the list may grow meanwhile
      continue;
    }
    Failed now = *next;
    next->due = Clock::time_point::max();  // it keeps its place, so that the next attempt needs no memory
    bool opened = false;
    try {
      const HcaIdentity identity = now.hca->identity();
      std::string problem;
      work->opening = true;
      lock.unlock();
      Result<std::unique_ptr<Hca>> made = tryToOpen(identity, work->config, problem);
      lock.lock();
      work->opening = false;
      work->changed.notify_all();
      // Nobody waits for a thread that is left behind, so it must not close the device.
      if (work->left && made.ok()) (void)made->release();
      if (work->stopping) return;
      lock.unlock();
      opened = takeBack(*work, now, std::move(made), problem);
      lock.lock();
    } catch (const std::bad_alloc&) {
      if (!lock.owns_lock()) lock.lock();
      work->opening = false;
      work->changed.notify_all();
    }
    if (work->stopping) return;
    const auto place = std::ranges::find(work->failed, now.hca, &Failed::hca);
    if (opened) {
      work->failed.erase(place);
      continue;
    }
    ++place->attempts;
    place->due = Clock::now() + pause(work->config, place->attempts);
  }
}

bool Reopener::takeBack(Work& work, const Failed& failed, Result<std::unique_ptr<Hca>> made,
                        const std::string& problem) {
  Hca& hca = *failed.hca;
  if (!made.ok()) {
    const bool said_enough = failed.attempts >= kSaidAttempts && failed.attempts % kSaidEvery != 0;
    if (!said_enough) RAILWISE_INFO(log::kNet, "%s: not back yet: %s", hca.name(), problem.c_str());
    return false;
  }
  Hca& fresh = **made;
  const std::string event = std::string(hca.name()) + " was opened anew after its failure";
  const std::string renamed =
      hca.name() == std::string(fresh.name()) ? "" : std::string(", its name is ") + fresh.name() + " now";
  guard(fresh);
  // Otherwise nobody would notice its next failure.
  if (!watcher_.watch(fresh.state()).ok()) return false;
  if (!publish(work, hca, *made)) return false;
  record::countDeviceLife(hca.name());
  try {
    record::noteEvent(record::EventKind::kDeviceBack, event);
    RAILWISE_WARN("%s: opened anew after its failure%s: connections go back to it", hca.name(),
                  renamed.c_str());
  } catch (const std::bad_alloc&) {  // it is open all the same
  }
  return true;
}

// Registers all memory with the next generation of a device, and shows it to everybody then. False: the
// reopener is being stopped.
bool Reopener::publish(Work& work, Hca& hca, std::unique_ptr<Hca>& fresh) {
  ibv_pd* const before = hca.pd();
  const Clock::time_point until = Clock::now() + Patience(work.config.failover_timeout_s).renewal();
  std::size_t renewed = 0;
  std::unique_lock lock(work.mutex);
  while (!work.stopping) {
    std::shared_ptr<Renewable> memory = hca.registered().next(renewed);
    if (memory == nullptr) {
      if (hca.setNextGeneration(fresh, renewed)) return true;
      continue;
    }
    work.opening = true;
    lock.unlock();
    if (!renewAll(work, *memory, before, *fresh, until)) fresh->state().lackKeys();
    lock.lock();
    work.opening = false;
    work.changed.notify_all();
    // Other devices that it is registered with may be closed.
    if (work.left) (void)new std::shared_ptr(std::move(memory));
  }
  if (work.left) (void)fresh.release();
  work.unpublished = std::move(fresh);
  return false;
}

// Without memory of the process, connections ask for each key.
bool Reopener::renewAll(Work& work, Renewable& memory, ibv_pd* before, Hca& fresh, Clock::time_point until) {
  const auto goOn = [&] {
    if (Clock::now() > until) return false;
    const std::lock_guard lock(work.mutex);
    return !work.stopping;
  };
  try {
    return memory.renew(before, {fresh.pd(), &fresh.state()}, goOn);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace railwise::net
