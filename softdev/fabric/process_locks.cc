#include "softdev/fabric/process_locks.h"

namespace railwise::softdev {

static std::mutex g_process_locks[static_cast<int>(ProcessLock::kCount)];

std::mutex& processLock(ProcessLock lock) { return g_process_locks[static_cast<int>(lock)]; }

void takeProcessLocks() {
  for (std::mutex& mutex : g_process_locks) mutex.lock();
}

void releaseProcessLocks() {
  for (std::mutex& mutex : g_process_locks) mutex.unlock();
}

}  // namespace railwise::softdev
