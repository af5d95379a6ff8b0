// The mutexes that a process has once, in the order in which a thread may take them. fork() takes them all:
// else a child might find one held by a thread that it does not have, and what it guards half changed.
// Thread-safe.
#pragma once

#include <mutex>

namespace railwise::softdev {

enum class ProcessLock {
  kDevices,      // configuration, open devices (verbs/device.cc)
  kIwarp,        // queue pairs of iWARP (verbs/iwarp.cc)
  kFabric,       // the attachment (engine/attachment.cc)
  kAgent,        // the agent (memory/agent.cc)
  kRemap,        // moved memory (memory/remap.cc)
  kFiles,        // files behind registered memory (memory/shared_memory.cc)
  kPeerRegions,  // mappings of peers' memory (memory/peer_regions.cc)
  kPeerMemory,   // /proc/PID/mem of peers (memory/peer_memory.cc)
  kCount,
};

std::mutex& processLock(ProcessLock lock);

// For the handlers of fork(): in the parent before it, and in both processes after it.
void takeProcessLocks();
void releaseProcessLocks();

}  // namespace railwise::softdev
