#include "softdev/fabric/fabric.h"

#include <sys/uio.h>

#include <cerrno>

#include "softdev/fabric/monotonic.h"

namespace railwise::softdev {

bool peerAlive(Fabric& fabric, uint32_t token) {
  constexpr int64_t kTrustNs = 10'000'000;
  if (slotOf(token) >= kMaxProcesses) return false;  // no process has this token
  std::atomic<int64_t>& checked = fabric.checked_at_ns[slotOf(token)];
  const ProcessSlot& slot = fabric.segment->processes[slotOf(token)];
  if ((slot.generation.load(std::memory_order_acquire) & kGenerationMask) != generationOf(token) ||
      slot.pid.load(std::memory_order_acquire) == 0)
    return false;
  const int64_t now = coarseNs();
  if (now - checked.load(std::memory_order_relaxed) < kTrustNs) return true;
  if (!tokenAlive(fabric.self, token)) return false;
  checked.store(now, std::memory_order_relaxed);
  return true;
}

bool peerReachable(Fabric& fabric, uint32_t token) {
  const uint32_t slot = slotOf(token);
  if (fabric.readable[slot].load(std::memory_order_relaxed) == token) return true;
  if (fabric.refused[slot].load(std::memory_order_relaxed) == token) return false;
  const ProcessSlot& process = fabric.segment->processes[slot];
  const auto pid = static_cast<pid_t>(process.pid.load(std::memory_order_acquire));
  uint8_t byte = 0;
  iovec here{&byte, 1};
  iovec there{reinterpret_cast<void*>(process.probe_address.load(std::memory_order_relaxed)), 1};  // NOLINT
  if (process_vm_readv(pid, &here, 1, &there, 1, 0) == 1) {
    fabric.readable[slot].store(token, std::memory_order_relaxed);
    return true;
  }
  // The process is ending; the transfer itself will report that.
  if (errno != EPERM && errno != ENOSYS) return true;
  fabric.refused[slot].store(token, std::memory_order_relaxed);
  return false;
}

}  // namespace railwise::softdev
