// The processes attached to a fabric, and whether they are still alive. A token names a process: it consists
// of the slot and the slot's generation, so that a token never names a later process in that slot.
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace railwise::softdev {

constexpr uint32_t kMaxProcesses = 512;

// Shared. Written under the fabric's table lock. `pid` is written last; 0: the slot is free.
struct alignas(64) ProcessSlot {
  std::atomic<uint32_t> pid;
  std::atomic<uint32_t> generation;
  // /proc/<pid>/stat field 22: distinguishes a process from a later process with its pid.
  std::atomic<uint64_t> start_time;
  // Address of a readable byte of the process, for peers that test whether they may read it.
  std::atomic<uint64_t> probe_address;
  // Member::fd plus one, once the membership is bound (membership.h); 0: not yet.
  std::atomic<uint32_t> member;
  // Member::number, stored before `member`.
  std::atomic<uint32_t> member_number;
};
static_assert(sizeof(ProcessSlot) == 64);

// The owner of shared locks: one per attached process.
struct LockOwner {
  uint32_t token = 0;  // makeToken() of the process slot; never 0 once attached
  const ProcessSlot* processes = nullptr;
  const char* prefix = nullptr;  // prefix of the members' names (membership.h)
};

constexpr uint32_t kSlotBits = 10;
constexpr uint32_t kGenerationMask = (1U << (32 - kSlotBits)) - 1;
static_assert(kMaxProcesses < (1U << kSlotBits));

constexpr uint32_t makeToken(uint32_t slot, uint32_t generation) {
  return (generation & kGenerationMask) << kSlotBits | (slot + 1);
}
constexpr uint32_t slotOf(uint32_t token) { return (token & ((1U << kSlotBits) - 1)) - 1; }
constexpr uint32_t generationOf(uint32_t token) { return token >> kSlotBits; }

// False if the process with `token` is gone, is a zombie, or has run another program since it attached
// (execve keeps the process but nothing else). Takes about 20 us, so never call it on the hot path.
bool tokenAlive(const LockOwner& self, uint32_t token);

// Start time of a process in clock ticks since boot; 0 if there is no such process.
uint64_t processStartTime(pid_t pid);
bool processAlive(pid_t pid, uint64_t start_time);
// True if the process is dead or is exiting (its memory may be partly gone).
bool processLeaving(pid_t pid, uint64_t start_time);

}  // namespace railwise::softdev
