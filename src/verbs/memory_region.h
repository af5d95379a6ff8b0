// Registration of memory with a protection domain.
#pragma once

#include "verbs/handles.h"

namespace railwise::verbs {

// Local write, remote write and remote read: the access that data buffers, rings of clear-to-sends and
// flushes need.
inline constexpr int kDataAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

// Added to the access of data regions if the device may reorder its writes over PCIe.
inline constexpr int kRelaxedOrdering = IBV_ACCESS_RELAXED_ORDERING;

// kRelaxedOrdering if NCCL_IB_PCI_RELAXED_ORDERING and this libibverbs allow it, otherwise 0.
int relaxedOrdering(const Config& config);

// Errors: kSystem with errno, logged once with the address, the size and what usually helps. For ENOMEM the
// log has the locked-memory limit in force and how to raise it.
// `again`: the caller tries again after errors that may pass, so these are logged as information.
Result<Mr> registerMemory(ibv_pd* pd, void* address, size_t bytes, int access, bool again = false);

// Like registerMemory(), for `bytes` at `offset` in the dma-buf `fd`, reachable at the virtual address
// `iova`. `data_direct`: register through the data-direct function of an mlx5 device.
Result<Mr> registerDmaBuf(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access,
                          bool data_direct = false, bool again = false);

// Like ibv_reg_dmabuf_mr, through the data-direct function of an mlx5 device. Null with errno on failure.
ibv_mr* registerDataDirect(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access);

// Does this device support dma-bufs? Tests it with an invalid fd, as NCCL does (EBADF: yes; EOPNOTSUPP: no).
bool dmaBufSupported(ibv_pd* pd);

}  // namespace railwise::verbs
