// Starts a thread of Railwise inside the application's process. The thread blocks all signals, because
// signals belong to the application.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace railwise {

template <typename Body>
std::thread startBackgroundThread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits this mask
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace railwise
