// Starts a thread of Railwise inside the application's process. The thread blocks all signals, because
// signals belong to the application.
#pragma once

#include <signal.h>

#include <new>
#include <thread>
#include <utility>

namespace railwise {

// Blocks all signals for the calling thread as long as it lives.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Throws std::system_error when the system has no thread, std::bad_alloc when it has no memory.
template <typename Body>
std::thread startBackgroundThread(Body body) {
  const SignalsBlocked inherited;  // by the new thread
  return std::thread(std::move(body));
}

// For a forked child, in which the thread does not exist and can be neither joined nor detached. What the
// thread's body holds stays in memory.
inline void forgetThread(std::thread& thread) {
  if (thread.joinable()) new (&thread) std::thread;
}

}  // namespace railwise
