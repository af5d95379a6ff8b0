// Atomic operations on 8 aligned bytes. They are atomic among all operations of the fabric's devices, as
// IBV_ATOMIC_HCA promises: each operation holds a lock of the fabric. The offset of the word in its page
// selects the lock, and this offset is equal in all processes that have mapped the word. A CPU that writes to
// the word at the same time is excluded only within one process.
#pragma once

#include "softdev/memory/peer_memory.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev {

constexpr bool isAtomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

// Executes `work` on the word at `address`, which lies in this process if `peer` is null. *before receives
// the old value. Returns 0 or the errno of a system call. Adds the number of system calls to *calls.
int updateWord(Fabric& fabric, const Work& work, std::byte* address, PeerMemory* peer, uint64_t* before,
               uint64_t* calls);

}  // namespace railwise::softdev
