#include "verbs/mlx5_library.h"

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/dynamic_library.h"
#include "verbs/memory_region.h"

namespace railwise::verbs {
namespace {

// After rdma-core 65, providers/mlx5/mlx5dv.h. The library reads and writes what the masks name.
constexpr uint64_t kContextOutOfOrder = 1 << 16;  // MLX5DV_CONTEXT_MASK_OOO_RECV_WRS
constexpr uint64_t kInitCreateFlags = 1 << 0;     // MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS
constexpr uint32_t kCreateOutOfOrder = 1 << 7;    // MLX5DV_QP_CREATE_OOO_DP
constexpr int kDmaBufDataDirect = 1 << 0;         // MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT

struct Mlx5Context {  // mlx5dv_context
  uint8_t version;
  uint64_t flags;
  uint64_t comp_mask;
  uint32_t cqe_compression[2];
  uint32_t software_parsing[2];
  uint32_t striding_receive_queue[5];
  uint32_t tunnel_offloads;
  uint32_t max_dynamic_registers;
  uint64_t max_clock_update_ns;
  uint32_t flow_action_flags;
  uint32_t dc_odp;
  void* core_clock;
  uint8_t lag_ports;
  struct {
    uint64_t block_size;
    uint32_t block_protection;
    uint16_t background;
    uint16_t crc;
  } signature;
  uint8_t dci_streams[2];
  std::size_t max_memcpy_bytes;
  struct {
    uint16_t failed_selftests;
    uint8_t engines;
    uint8_t import_method;
    uint8_t log_max_keys;
    uint32_t flags;
  } crypto;
  uint64_t max_dc_read_atomic;
  uint64_t max_dc_initiated_read_atomic;
  struct {
    uint32_t value;
    uint32_t mask;
  } register_c0;
  struct {
    uint32_t rc;
    uint32_t xrc;
    uint32_t dct;
    uint32_t ud;
    uint32_t uc;
  } out_of_order_receives;
  uint64_t newer[32];  // a later library may write more than it is asked for
};
static_assert(offsetof(Mlx5Context, crypto) == 136 && offsetof(Mlx5Context, out_of_order_receives) == 176);

struct Mlx5QpInit {  // mlx5dv_qp_init_attr
  uint64_t comp_mask;
  uint32_t create_flags;
  struct {
    uint32_t type;
    uint64_t key;
  } dynamically_connected;
  uint64_t send_operations;
};
static_assert(sizeof(Mlx5QpInit) == 40);

struct Functions {
  bool (*is_supported)(ibv_device* device);
  int (*query_device)(ibv_context* context, void* attributes);  // Mlx5Context
  ibv_qp* (*create_qp)(ibv_context* context, ibv_qp_init_attr_ex* attributes,
                       const void* mlx5);  // Mlx5QpInit
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, uint64_t offset, std::size_t length, uint64_t iova, int fd, int access,
                           int mlx5_access);
  int (*get_data_direct_sysfs_path)(ibv_context* context, char* path, std::size_t bytes);
};

struct State {
  std::mutex mutex;
  std::string file;
  bool opened = false;
  std::optional<DynamicLibrary> library;
  Functions functions = {};
};

// Never destroyed: NCCL's threads may still run at exit.
State& state() {
  static State& it = *new State;
  return it;
}

template <typename Function>
void resolve(const DynamicLibrary& library, const char* symbol, const char* version, Function& function) {
  function = reinterpret_cast<Function>(library.symbol(symbol, version));
}

// The versions are those of rdma-core's libmlx5.map.
void openLocked(State& it) {
  it.opened = true;
  if (it.file.empty()) return;
  std::string error;
  Result<DynamicLibrary> library = DynamicLibrary::open({it.file.c_str()}, &error);
  if (!library.ok()) {
    RAILWISE_INFO(log::kInit | log::kNet, "no mlx5 extensions (data-direct, out-of-order receive): %s",
                  error.c_str());
    return;
  }
  Functions& functions = it.functions;
  resolve(*library, "mlx5dv_is_supported", "MLX5_1.8", functions.is_supported);
  resolve(*library, "mlx5dv_query_device", "MLX5_1.0", functions.query_device);
  resolve(*library, "mlx5dv_create_qp", "MLX5_1.3", functions.create_qp);
  resolve(*library, "mlx5dv_reg_dmabuf_mr", "MLX5_1.25", functions.reg_dmabuf_mr);
  resolve(*library, "mlx5dv_get_data_direct_sysfs_path", "MLX5_1.25", functions.get_data_direct_sysfs_path);
  it.library.emplace(std::move(*library));
}

const Functions& mlx5() {
  State& it = state();
  const std::lock_guard lock(it.mutex);
  if (!it.opened) openLocked(it);
  return it.functions;
}

}  // namespace

void setMlx5Library(const std::string& file) {
  State& it = state();
  const std::lock_guard lock(it.mutex);
  it.functions = {};
  it.library.reset();
  it.opened = false;
  it.file = file;
}

bool isMlx5(ibv_device* device) {
  const Functions& functions = mlx5();
  return functions.is_supported != nullptr && functions.is_supported(device);
}

std::string dataDirectPath(ibv_context* context, ibv_pd* pd) {
  if (!isMlx5(context->device)) return {};
  const Functions& functions = mlx5();
  if (functions.get_data_direct_sysfs_path == nullptr || functions.reg_dmabuf_mr == nullptr) return {};
  // Asked with an invalid descriptor, as for dma-bufs at large: EBADF when the kernel knows the call.
  errno = 0;
  const Mr never(functions.reg_dmabuf_mr(pd, 0, 0, 0, -1, 0, 0));
  if (errno == EOPNOTSUPP || errno == EPROTONOSUPPORT || !dmaBufSupported(pd)) return {};
  char path[PATH_MAX] = "";
  const int error = functions.get_data_direct_sysfs_path(context, path, sizeof path);
  if (error == 0) return std::string("/sys") + path;
  if (error != ENODEV) {  // which means that there is none
    RAILWISE_WARN("%s: mlx5dv_get_data_direct_sysfs_path failed: %s; its data-direct function is not used",
                  library().get_device_name(context->device), std::strerror(error));
  }
  return {};
}

ibv_mr* registerDataDirect(ibv_pd* pd, uint64_t offset, std::size_t bytes, uint64_t iova, int fd,
                           int access) {
  const Functions& functions = mlx5();
  if (functions.reg_dmabuf_mr == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return functions.reg_dmabuf_mr(pd, offset, bytes, iova, fd, access, kDmaBufDataDirect);
}

uint32_t mlx5OutOfOrderReceives(ibv_context* context) {
  if (!isMlx5(context->device)) return 0;
  const Functions& functions = mlx5();
  if (functions.query_device == nullptr || functions.create_qp == nullptr) return 0;
  Mlx5Context attributes = {};
  attributes.comp_mask = kContextOutOfOrder;
  if (functions.query_device(context, &attributes) != 0) return 0;
  return (attributes.comp_mask & kContextOutOfOrder) != 0 ? attributes.out_of_order_receives.rc : 0;
}

ibv_qp* createOutOfOrderQp(ibv_pd* pd, ibv_qp_init_attr& attributes) {
  const Functions& functions = mlx5();
  if (functions.create_qp == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  ibv_qp_init_attr_ex extended = {};
  extended.qp_context = attributes.qp_context;
  extended.send_cq = attributes.send_cq;
  extended.recv_cq = attributes.recv_cq;
  extended.srq = attributes.srq;
  extended.cap = attributes.cap;
  extended.qp_type = attributes.qp_type;
  extended.sq_sig_all = attributes.sq_sig_all;
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd;
  Mlx5QpInit mlx5_attributes = {};
  mlx5_attributes.comp_mask = kInitCreateFlags;
  mlx5_attributes.create_flags = kCreateOutOfOrder;
  ibv_qp* qp = functions.create_qp(pd->context, &extended, &mlx5_attributes);
  if (qp != nullptr) attributes.cap = extended.cap;
  return qp;
}

}  // namespace railwise::verbs
