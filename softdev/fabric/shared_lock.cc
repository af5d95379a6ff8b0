#include "softdev/fabric/shared_lock.h"

#include "softdev/fabric/monotonic.h"

namespace railwise::softdev {

// Checks the owner after a certain time, not after a number of yields, because on a busy machine one yield
// may last as long as all other threads want to run. A check costs about 20 us.
bool SharedLock::lockSlow(const LockOwner& self) {
  constexpr int kSpins = 64;
  constexpr int64_t kLookNs = 5'000'000;
  int64_t looked_ns = 0;
  for (int round = 0;; ++round) {
    for (int spin = 0; spin < kSpins && owner() != 0; ++spin) pauseCpu();
    uint32_t seen = 0;
    if (word_.compare_exchange_strong(seen, self.token, std::memory_order_seq_cst)) return false;
    giveWay(round);
    const int64_t now_ns = coarseNs();
    if (looked_ns == 0) looked_ns = now_ns;
    if (now_ns - looked_ns < kLookNs) continue;
    looked_ns = now_ns;
    if (tokenAlive(self, seen)) continue;
    if (word_.compare_exchange_strong(seen, self.token, std::memory_order_seq_cst)) return true;
  }
}

}  // namespace railwise::softdev
