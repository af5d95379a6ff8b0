// The functions of libmlx5.so.1 that Railwise calls, in one table: they offer what NVIDIA's NICs have beyond
// verbs. The library is opened at the first call (RAILWISE_MLX5_LIB; with the software device only if that is
// set). A missing library is no error: every function is then null. Conventions are those of libmlx5. Any
// thread, between verbs::load() and unload().
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace railwise::verbs {

// Each function may be null: there is no library, or the library is too old to have the function.
struct Mlx5Library {
  bool (*is_supported)(ibv_device* device);
  // `attributes` is a mlx5dv_context; `mlx5` is a mlx5dv_qp_init_attr.
  int (*query_device)(ibv_context* context, void* attributes);
  ibv_qp* (*create_qp)(ibv_context* context, ibv_qp_init_attr_ex* attributes, const void* mlx5);
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, uint64_t offset, std::size_t length, uint64_t iova, int fd, int access,
                           int mlx5_access);
  int (*modify_qp_lag_port)(ibv_qp* qp, uint8_t port);
  int (*get_data_direct_sysfs_path)(ibv_context* context, char* path, std::size_t bytes);
};

const Mlx5Library& mlx5Library();

// For verbs::load() and unload(). Empty: no library is opened.
void setMlx5Library(const std::string& file);

}  // namespace railwise::verbs
