// Lets the owner of the memory copy, for peers that the kernel does not allow to reach it (another user
// namespace, a process that is not dumpable, Yama). A thread of the owner, the agent, takes requests from its
// AgentRecord in the segment and moves bytes between the owner's memory and bounce pages of the arena. This
// is the last resort: each process serves one request at a time, and a request costs two wake-ups. The agent
// also hands the descriptor of the segment to processes that want to join the fabric and may not open it in
// /proc. Thread-safe.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <string>

#include "base/status.h"
#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// Starts the agent of this process, unless it runs. A failure is logged once.
Status startAgent(Fabric& fabric);
// Ends the agent, before the process detaches. It serves nobody afterwards.
void stopAgent(Fabric& fabric);
// Called in a child after fork(), with the process locks held: the thread and the sockets belong to the
// parent.
void forgetAgent();

// Must this process expect that the kernel refuses peers access to it?
bool agentNeeded();
// Starts our agent if a peer has asked for it. Cheap enough for empty polls and for transitions of a queue
// pair.
inline void heedAgentWish(Fabric& fabric) {
  const uint32_t self = fabric.self.token;
  AgentRecord& mine = fabric.segment->agents[slotOf(self)];
  if (mine.wanted.load(std::memory_order_relaxed) != self) [[likely]]  // the token is all that is passed
    return;
  mine.wanted.store(0, std::memory_order_relaxed);
  (void)startAgent(fabric);
}

bool agentReady(const Fabric& fabric, uint32_t token);
// Called when a queue pair connects to the process with `token`. If we may not reach its memory, we ask for
// its agent, and start ours, because such refusals are mostly mutual.
void meetPeer(Fabric& fabric, uint32_t token);

// Like transfer() of mover.h, but the agent of the process with `token` copies. ESRCH: the process is gone.
// ETIMEDOUT: the process lives but does not answer (it is stopped).
uint64_t agentTransfer(Fabric& fabric, uint32_t token, bool write, iovec* local, int locals, iovec* remote,
                       int remotes, int* error, uint64_t* calls);

// Ends the requests of a dead process: from then on none is served. Call it before its bounce pages are
// freed.
void retireAgent(Fabric& fabric, uint32_t token);

// Gets the segment's descriptor from the agent of process `pid` on the fabric. -1: the process has no agent,
// or belongs to another user.
int fetchSegment(const std::string& prefix, pid_t pid);

}  // namespace railwise::softdev
