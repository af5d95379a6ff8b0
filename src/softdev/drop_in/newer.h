// Declarations of releases of <infiniband/verbs.h> newer than the oldest we build with (rdma-core 44), as our
// own where the header has none. Layouts are rdma-core's and never change; fields are added at the end.
#pragma once

#include <cstddef>
#include <cstdint>

namespace railwise::verbs_front {

// ibv_mr_init_attr of ibv_reg_mr_ex (rdma-core 59), up to `dmah`.
struct MrInitAttr {
  size_t length;
  int access;
  uint64_t comp_mask;  // kMr...
  uint64_t iova;
  void* address;
  int fd;
  uint64_t fd_offset;
  void* dma_handle;
};
constexpr uint64_t kMrIova = 1, kMrAddress = 2, kMrFd = 4, kMrFdOffset = 8;

}  // namespace railwise::verbs_front
