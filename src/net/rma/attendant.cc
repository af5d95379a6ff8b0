#include "net/rma/attendant.h"

#include <pthread.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "base/background_thread.h"
#include "base/process.h"
#include "net/patience.h"

namespace railwise::net {

Attendant::Attendant() : owner_pid_(processId()) {}

std::shared_ptr<Attendant> Attendant::ofProcess() {
  static std::mutex mutex;
  static auto& current =
      *new std::weak_ptr<Attendant>;  // never destroyed: NCCL's threads may still run at exit
  const std::lock_guard lock(mutex);
  if (std::shared_ptr<Attendant> its = current.lock(); its != nullptr && its->owner_pid_ == processId())
    return its;
  try {
    std::shared_ptr<Attendant> made(new Attendant);
    made->thread_ = startBackgroundThread([attendant = made.get()] { attendant->run(); });
    pthread_setname_np(made->thread_.native_handle(), "railwise-rma");
    current = made;
    return made;
  } catch (const std::bad_alloc&) {
  } catch (const std::system_error&) {
  }
  return nullptr;
}

Attendant::~Attendant() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Attendant::attend(Attended& group) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(&group);
}

void Attendant::leave(std::shared_ptr<Attendant> attendant, Attended& group) {
  if (attendant == nullptr) return;
  if (attendant->owner_pid_ != processId()) {
    (void)new std::shared_ptr<Attendant>(std::move(attendant));
    return;
  }
  const std::lock_guard lock(attendant->mutex_);
  std::erase(attendant->groups_, &group);
}

void Attendant::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, Patience::kAttend, [this] { return stopping_; })) {
    for (Attended* group : groups_) group->attend();
  }
}

}  // namespace railwise::net
