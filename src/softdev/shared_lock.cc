#include "softdev/shared_lock.h"

#include "softdev/process_table.h"

namespace railwise::softdev {

bool SharedLock::lockSlow(const LockOwner& self) {
  constexpr int kSpins = 64;
  constexpr int kYieldsPerCheck = 1024;  // a liveness check costs some 20 us
  for (int round = 1;; ++round) {
    for (int spin = 0; spin < kSpins && owner() != 0; ++spin) pauseCpu();
    uint32_t seen = 0;
    if (word_.compare_exchange_strong(seen, self.token, std::memory_order_seq_cst)) return false;
    sched_yield();
    if (round % kYieldsPerCheck != 0 || tokenAlive(self.processes, seen)) continue;
    if (word_.compare_exchange_strong(seen, self.token, std::memory_order_seq_cst)) return true;
  }
}

}  // namespace railwise::softdev
