// Atomic operations on 8 aligned bytes. They are atomic among all operations of the fabric's devices, as
// IBV_ATOMIC_HCA promises: each holds a lock of the fabric that follows from where in its page the word lies,
// which is the same however many processes have mapped it. A processor that writes to the word at the same
// time is not kept out, except within one process.
#pragma once

#include "softdev/memory/peer_memory.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev {

constexpr bool isAtomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

// Executes `work` on the word at `address`, of this process when `peer` is null. *before is what was there. 0
// or errno of the system calls, which are added to *calls.
int updateWord(Fabric& fabric, const Work& work, std::byte* address, PeerMemory* peer, uint64_t* before,
               uint64_t* calls);

}  // namespace railwise::softdev
