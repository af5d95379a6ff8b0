// The attachment of this process to a fabric: its mapping of the shared segment and its process slot. Created
// with the first open device, removed with the last or with the process (attachment.h).
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "base/status.h"
#include "softdev/fabric/segment.h"

namespace railwise::softdev {

struct Fabric {
  Segment* segment = nullptr;
  LockOwner self;
  std::string prefix;
  int segment_fd = -1;
  int mark_fd = -1;
  int bell_fd = -1;  // rings doorbells (doorbell.h)
  int uses = 0;
  bool forgotten = false;  // we are in a forked child: the shared records belong to the parent
  // Peers by process slot: when (steady clock, ns) their liveness was checked, and the generation we may read
  // or not.
  std::array<std::atomic<int64_t>, kMaxProcesses> checked_at_ns{};
  std::array<std::atomic<uint32_t>, kMaxProcesses> readable{};
  std::array<std::atomic<uint32_t>, kMaxProcesses> refused{};
  std::array<std::atomic<uint32_t>, kMaxProcesses> warned{};  // the refusal was logged
};

// Liveness of the process behind `token`, looked up at most every 10 ms: pids are not reused that fast.
bool peerAlive(Fabric& fabric, uint32_t token);
// Whether process_vm_* may reach it; tried once per peer process.
bool peerReachable(Fabric& fabric, uint32_t token);

}  // namespace railwise::softdev
