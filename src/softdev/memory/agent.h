// Copies by the owner of the memory, for peers that the kernel does not let reach it (another user namespace,
// a process that is not dumpable, Yama): a thread of that process takes requests from its AgentRecord in the
// segment and moves the bytes between its memory and bounce pages of the arena. The last resort: one request
// at a time for each process, and two wake-ups each. The thread also hands the segment's file to processes
// that want to join the fabric and may not open it in /proc. Thread-safe.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <string>

#include "base/status.h"
#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// Starts this process's agent unless it runs. A failure is logged once.
Status startAgent(Fabric& fabric);
// Ends it; nobody is served afterwards. Before detaching.
void stopAgent(Fabric& fabric);
// Around a fork, so that no child inherits the agent half started. In the child thread and sockets are the
// parent's.
void holdAgent();
void releaseAgent();
void forgetAgent();

// Whether others can be expected to be refused access to this process.
bool agentNeeded();
// Starts our agent when a peer has asked for it. Cheap: for empty polls and changes of a queue pair.
inline void heedAgentWish(Fabric& fabric) {
  const uint32_t self = fabric.self.token;
  AgentRecord& mine = fabric.segment->agents[slotOf(self)];
  if (mine.wanted.load(std::memory_order_relaxed) != self) [[likely]]
    return;
  mine.wanted.store(0, std::memory_order_relaxed);
  (void)startAgent(fabric);
}

bool agentReady(const Fabric& fabric, uint32_t token);
// Connecting to `token`: where we may not reach it we ask for its agent, and start ours, since such refusals
// are mostly mutual.
void meetPeer(Fabric& fabric, uint32_t token);

// Like transfer() of mover.h, by the agent of the process with `token`. ESRCH: it is gone. ETIMEDOUT: it
// lives and does not answer (stopped).
uint64_t agentTransfer(Fabric& fabric, uint32_t token, bool write, iovec* local, int locals, iovec* remote,
                       int remotes, int* error, uint64_t* calls);

// No request of a dead process is or will be served: before its bounce pages are freed.
void retireAgent(Fabric& fabric, uint32_t token);

// The segment's file from the agent of process `pid` on the fabric; -1 when it has none or is not of our
// user.
int fetchSegment(const std::string& prefix, pid_t pid);

}  // namespace railwise::softdev
