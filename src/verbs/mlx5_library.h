// What NVIDIA's NICs have beyond verbs, from libmlx5.so.1: registration through the data-direct function, and
// queue pairs that take messages in any order. The library is opened at the first question
// (RAILWISE_MLX5_LIB; with the software device only when that is set) and its absence is no error: every
// answer is then "no". The declarations of its structures in mlx5_library.cc are ours, after rdma-core 65
// (providers/mlx5/mlx5dv.h), so that no newer header is needed to build. Any thread, between verbs::load()
// and unload().
#pragma once

#include <string>

#include "verbs/handles.h"

namespace railwise::verbs {

bool isMlx5(ibv_device* device);

// The sysfs folder of the data-direct PCI function that stands beside the device, "" when there is none. By
// it GPU memory behind the same PCIe switch is reached where the NIC's own function hangs off the CPU
// (ConnectX-8).
std::string dataDirectPath(ibv_context* context, ibv_pd* pd);

// As ibv_reg_dmabuf_mr, through that function; null with errno.
ibv_mr* registerDataDirect(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access);

// Receives that an out-of-order RC queue pair can have; 0: there are no such queue pairs.
uint32_t mlx5OutOfOrderReceives(ibv_context* context);
// As ibv_create_qp, out of order; null with errno.
ibv_qp* createOutOfOrderQp(ibv_pd* pd, ibv_qp_init_attr& attributes);

// For verbs::load() and unload(). Empty: none is looked for.
void setMlx5Library(const std::string& file);

}  // namespace railwise::verbs
