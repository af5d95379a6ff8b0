// What NVIDIA's NICs offer beyond verbs, from libmlx5.so.1: the data-direct function, and queue pairs that
// take messages in any order. If the library is missing, every answer is "no". mlx5.cc declares its
// structures itself, after rdma-core 65 (providers/mlx5/mlx5dv.h), so that building needs no newer header.
// Any thread, between verbs::load() and unload().
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace railwise::verbs {

bool isMlx5(ibv_device* device);

// The sysfs folder of the data-direct PCI function beside the device; "" if there is none. Through this
// function the NIC reaches GPU memory behind the PCIe switch that both share, while the NIC's own function is
// attached to the CPU (ConnectX-8). registerDmaBuf() registers through it.
std::string dataDirectPath(ibv_context* context, ibv_pd* pd);

// The number of receives that an out-of-order RC queue pair can have. 0: the device has no such queue pairs.
uint32_t mlx5OutOfOrderReceives(ibv_context* context);
// Like ibv_create_qp, for an out-of-order queue pair. Null with errno on failure.
ibv_qp* createOutOfOrderQp(ibv_pd* pd, ibv_qp_init_attr& attributes);

// The functions of the library that Railwise calls, with its conventions. The library is opened at the first
// call (RAILWISE_MLX5_LIB; with the software device only if that is set). Each function may be null: there is
// no library, or the library is too old to have the function.
struct Mlx5Library {
  bool (*is_supported)(ibv_device* device);
  // `attributes` is a mlx5dv_context; `mlx5` is a mlx5dv_qp_init_attr.
  int (*query_device)(ibv_context* context, void* attributes);
  ibv_qp* (*create_qp)(ibv_context* context, ibv_qp_init_attr_ex* attributes, const void* mlx5);
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, uint64_t offset, std::size_t length, uint64_t iova, int fd, int access,
                           int mlx5_access);
  int (*get_data_direct_sysfs_path)(ibv_context* context, char* path, std::size_t bytes);
};

const Mlx5Library& mlx5Library();

// For verbs::load() and unload(). Empty: no library is opened.
void setMlx5Library(const std::string& file);

}  // namespace railwise::verbs
