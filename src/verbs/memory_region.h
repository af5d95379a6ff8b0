// Registration of memory with a protection domain.
#pragma once

#include "verbs/handles.h"

namespace railwise::verbs {

// Local write, remote write and remote read: what data buffers, clear-to-send rings and flushes need.
inline constexpr int kDataAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

// Errors: kSystem with errno, logged once with the address, the size and what usually helps (locked-memory
// limit).
Result<Mr> registerMemory(ibv_pd* pd, void* address, size_t bytes, int access);

// The same for `bytes` at `offset` into the dma-buf `fd`, reachable at the virtual address `iova`.
Result<Mr> registerDmaBuf(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access);

// Does this device take dma-bufs? Asked with an invalid fd, as NCCL asks (EBADF: yes; EOPNOTSUPP: no).
bool dmaBufSupported(ibv_pd* pd);

}  // namespace railwise::verbs
