// A libmlx5.so.1 for tests: the functions that Railwise calls, under the versions of rdma-core's map. Layouts
// are written down as offsets, apart from the declarations in src/verbs/mlx5.cc (rdma-core 65,
// providers/mlx5/mlx5dv.h: mlx5dv_context is 200 bytes, comp_mask at 16, num_lag_ports at 96,
// ooo_recv_wrs_caps at 176; mlx5dv_qp_init_attr has comp_mask at 0 and create_flags at 8).
#include "fake_mlx5.h"

#include <cerrno>
#include <cstring>

using railwise::test::FakeMlx5;

namespace {

template <typename T>
T read(const void* from, size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(from) + offset, sizeof value);
  return value;
}

template <typename T>
void write(void* to, size_t offset, T value) {
  std::memcpy(static_cast<char*>(to) + offset, &value, sizeof value);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) FakeMlx5* railwiseFakeMlx5();
__attribute__((visibility("default"))) bool mlx5dv_is_supported(ibv_device*);
__attribute__((visibility("default"))) int mlx5dv_query_device(ibv_context*, void* attributes);
__attribute__((visibility("default"))) ibv_qp* mlx5dv_create_qp(ibv_context* context,
                                                                ibv_qp_init_attr_ex* attributes,
                                                                const void* mlx5);
__attribute__((visibility("default"))) int mlx5dv_modify_qp_lag_port(ibv_qp* qp, uint8_t port);
__attribute__((visibility("default"))) ibv_mr* mlx5dv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset,
                                                                    size_t length, uint64_t iova, int fd,
                                                                    int access, int mlx5_access);
__attribute__((visibility("default"))) int mlx5dv_get_data_direct_sysfs_path(ibv_context*, char* path,
                                                                             size_t bytes);

FakeMlx5* railwiseFakeMlx5() {
  static FakeMlx5 state;
  return &state;
}

bool mlx5dv_is_supported(ibv_device*) { return railwiseFakeMlx5()->supported; }

int mlx5dv_query_device(ibv_context*, void* attributes) {
  constexpr uint64_t kOutOfOrder = 1 << 16;
  constexpr uint64_t kLagPorts = 1 << 9;
  FakeMlx5& state = *railwiseFakeMlx5();
  uint64_t known = read<uint64_t>(attributes, 16);
  if ((known & kLagPorts) != 0) ++state.lag_asked;
  if (state.out_of_order_receives == 0) known &= ~kOutOfOrder;
  if (state.lag_ports == 0) known &= ~kLagPorts;
  known &= kOutOfOrder | kLagPorts;
  write<uint64_t>(attributes, 16, known);
  if ((known & kOutOfOrder) != 0) write<uint32_t>(attributes, 176, state.out_of_order_receives);
  if ((known & kLagPorts) != 0) write<uint8_t>(attributes, 96, state.lag_ports);
  return 0;
}

int mlx5dv_modify_qp_lag_port(ibv_qp* qp, uint8_t port) {
  FakeMlx5& state = *railwiseFakeMlx5();
  if (state.lag_error != 0) return state.lag_error;
  state.lag_port_of[qp] = port;
  return 0;
}

ibv_qp* mlx5dv_create_qp(ibv_context* context, ibv_qp_init_attr_ex* attributes, const void* mlx5) {
  FakeMlx5& state = *railwiseFakeMlx5();
  state.qp_mask = read<uint64_t>(mlx5, 0);
  state.qp_flags = read<uint32_t>(mlx5, 8);
  if (state.create_qp != nullptr) return state.create_qp(context, attributes);
  errno = EOPNOTSUPP;
  return nullptr;
}

ibv_mr* mlx5dv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access,
                             int mlx5_access) {
  FakeMlx5& state = *railwiseFakeMlx5();
  if (fd < 0) {
    errno = EBADF;
    return nullptr;
  }
  state.mlx5_access = mlx5_access;
  if (state.reg_dmabuf_mr != nullptr) return state.reg_dmabuf_mr(pd, offset, length, iova, fd, access);
  errno = EOPNOTSUPP;
  return nullptr;
}

int mlx5dv_get_data_direct_sysfs_path(ibv_context*, char* path, size_t bytes) {
  const FakeMlx5& state = *railwiseFakeMlx5();
  if (state.data_direct_error != 0) return state.data_direct_error;
  if (state.data_direct_path.size() >= bytes) return ENOSPC;
  std::strcpy(path, state.data_direct_path.c_str());
  return 0;
}
}
