#include "net/postponed.h"

#include <pthread.h>

#include <vector>

#include "net/receive_connection.h"

namespace railwise::net {

// Thread-specific data instead of thread_local: the plugin is loaded late and has threads that outlive their
// use of it, and gcc's ThreadSanitizer takes the end of such a thread_local for a race.
struct Postponed::Thread {
  uint64_t number;  // of no other thread, before or after
  std::vector<std::shared_ptr<Entry>> entries;

  static Thread& self() {
    static std::atomic<uint64_t> count = 0;
    static const pthread_key_t key = [] {
      pthread_key_t made = 0;
      pthread_key_create(&made, [](void* thread) { delete static_cast<Thread*>(thread); });
      return made;
    }();
    auto* thread = static_cast<Thread*>(pthread_getspecific(key));
    if (thread == nullptr) {
      thread = new Thread{++count, {}};
      pthread_setspecific(key, thread);
    }
    return *thread;
  }
};

uint64_t Postponed::thisThread() { return Thread::self().number; }

Postponed::~Postponed() {
  const std::lock_guard lock(entry_->mutex);
  entry_->connection = nullptr;
}

void Postponed::add() {
  Thread& self = Thread::self();
  const std::lock_guard lock(entry_->mutex);
  entry_->thread = self.number;
  self.entries.push_back(entry_);
}

void Postponed::postAll() {
  Thread& self = Thread::self();
  std::erase_if(self.entries, [&](const std::shared_ptr<Entry>& entry) {
    const std::lock_guard lock(entry->mutex);
    if (entry->connection == nullptr || entry->thread != self.number) return true;
    if (entry->waits) entry->connection->postForOther();
    return false;
  });
}

}  // namespace railwise::net
