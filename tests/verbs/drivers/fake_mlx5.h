// What the fake libmlx5.so.1 of the tests answers and was asked. One per process: the library is loaded by
// its path, and `fakeMlx5` of that path is the same object.
#pragma once

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <map>
#include <string>

namespace railwise::test {

struct FakeMlx5 {
  // What it answers.
  bool supported = true;
  int data_direct_error = 0;
  std::string data_direct_path = "/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
  uint32_t out_of_order_receives = 0;  // 0: not offered
  uint8_t lag_ports = 0;               // 0: not offered
  int lag_error = 0;                   // of mlx5dv_modify_qp_lag_port
  ibv_qp* (*create_qp)(ibv_context* context, ibv_qp_init_attr_ex* attributes) = nullptr;  // null: EOPNOTSUPP
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                           int access) = nullptr;  // null: EBADF for no descriptor, else EOPNOTSUPP
  // What it was asked last.
  int mlx5_access = -1;
  uint64_t qp_mask = 0;
  uint32_t qp_flags = 0;
  std::map<const ibv_qp*, uint8_t> lag_port_of;
  int lag_asked = 0;  // how often
};

inline FakeMlx5& fakeMlx5(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);  // stays loaded
  auto* state = reinterpret_cast<FakeMlx5* (*)()>(dlsym(library, "railwiseFakeMlx5"));
  return *state();
}

}  // namespace railwise::test
