// The attachment of this process to a fabric: its mapping of the shared segment and its process slot. The
// first open device creates it. The last device, or the end of the process, removes it (attachment.h).
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "base/status.h"
#include "softdev/fabric/segment.h"

namespace railwise::softdev {

// Which fabric a process takes, and with which configuration.
struct FabricChoice {
  std::string name = "default";
  bool named = true;          // false: neither the configuration nor RAILWISE_FABRIC names the fabric
  uint64_t digest = 0;        // of the configuration (config/config.cc)
  std::string configuration;  // as the user wrote it
};

struct Fabric {
  Segment* segment = nullptr;
  LockOwner self;
  std::string prefix;
  int segment_fd = -1;
  int mark_fd = -1;
  int bell_fd = -1;  // used to ring doorbells (doorbell.h)
  int uses = 0;
  bool forgotten = false;  // this is a forked child: the shared records belong to the parent
  // Peers by process slot: when their liveness was last checked (steady clock, ns), and the token of the
  // process whose memory this process may read (`readable`) or may not read (`refused`).
  std::array<std::atomic<int64_t>, kMaxProcesses> checked_at_ns{};
  std::array<std::atomic<uint32_t>, kMaxProcesses> readable{};
  std::array<std::atomic<uint32_t>, kMaxProcesses> refused{};
  std::array<std::atomic<uint32_t>, kMaxProcesses> warned{};  // token of the process whose refusal was logged
};

// Is the process with `token` alive? Looks it up at most every 10 ms, because the kernel does not reuse a pid
// that fast.
bool peerAlive(Fabric& fabric, uint32_t token);
// May this process reach the memory of the process with `token` by process_vm_*? Tries it once per peer
// process.
bool peerReachable(Fabric& fabric, uint32_t token);

}  // namespace railwise::softdev
