// The processes attached to a fabric, and whether they are still alive. A process is named by a token: its
// slot and the slot's generation, so that a token never means a later process that got the same slot.
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace railwise::softdev {

constexpr uint32_t kMaxProcesses = 512;

// Shared. Written under the fabric's table lock; `pid` last, 0 when the slot is free.
struct alignas(64) ProcessSlot {
  std::atomic<uint32_t> pid;
  std::atomic<uint32_t> generation;
  std::atomic<uint64_t>
      start_time;  // /proc/<pid>/stat field 22: tells a process from a later one with its pid
  std::atomic<uint64_t> probe_address;  // a readable byte of the process, to find out whether we may read it
  std::atomic<uint32_t>
      member;  // Member::fd plus one, once the membership is bound (membership.h); 0: not yet
};
static_assert(sizeof(ProcessSlot) == 64);

// Who takes shared locks: one per attached process.
struct LockOwner {
  uint32_t token = 0;  // makeToken() of the process slot, never 0 once attached
  const ProcessSlot* processes = nullptr;
  const char* prefix = nullptr;  // of the members' names (membership.h)
};

constexpr uint32_t kSlotBits = 10;
constexpr uint32_t kGenerationMask = (1U << (32 - kSlotBits)) - 1;
static_assert(kMaxProcesses < (1U << kSlotBits));

constexpr uint32_t makeToken(uint32_t slot, uint32_t generation) {
  return (generation & kGenerationMask) << kSlotBits | (slot + 1);
}
constexpr uint32_t slotOf(uint32_t token) { return (token & ((1U << kSlotBits) - 1)) - 1; }
constexpr uint32_t generationOf(uint32_t token) { return token >> kSlotBits; }

// False when the process that held `token` is gone, is a zombie, or runs another program since (execve keeps
// the process and takes everything else). Some 20 us; never on the hot path.
bool tokenAlive(const LockOwner& self, uint32_t token);

// Start time of a process in clock ticks since boot; 0 when there is no such process.
uint64_t processStartTime(pid_t pid);
bool processAlive(pid_t pid, uint64_t start_time);
// True when the process is dead or on its way out (its memory may be partly gone).
bool processLeaving(pid_t pid, uint64_t start_time);

}  // namespace railwise::softdev
