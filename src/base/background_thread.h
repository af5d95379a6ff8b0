// Threads of ours inside somebody's process: signals are the application's, so they block them all.
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
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread inherits it
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace railwise
