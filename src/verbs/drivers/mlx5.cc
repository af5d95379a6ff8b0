#include "verbs/drivers/mlx5.h"

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <optional>

#include "verbs/drivers/mlx5_library.h"
#include "verbs/memory_region.h"

namespace railwise::verbs {
namespace {

// Declarations after rdma-core 65, providers/mlx5/mlx5dv.h. The library reads and writes only the fields that
// the masks name.
constexpr uint64_t kContextLagPorts = 1 << 9;     // MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS
constexpr uint64_t kContextOutOfOrder = 1 << 16;  // MLX5DV_CONTEXT_MASK_OOO_RECV_WRS
constexpr uint64_t kInitCreateFlags = 1 << 0;     // MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS
constexpr uint32_t kCreateOutOfOrder = 1 << 7;    // MLX5DV_QP_CREATE_OOO_DP

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
  uint64_t newer[32];  // room, because a newer library may write more than was requested
};
static_assert(offsetof(Mlx5Context, lag_ports) == 96 && offsetof(Mlx5Context, crypto) == 136 &&
              offsetof(Mlx5Context, out_of_order_receives) == 176);

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

// What the NIC answers for one mask. Nothing: the library or the NIC does not know this mask.
std::optional<Mlx5Context> queryMlx5(ibv_context* context, uint64_t mask) {
  if (!isMlx5(context->device) || mlx5Library().query_device == nullptr) return std::nullopt;
  Mlx5Context attributes = {};
  attributes.comp_mask = mask;
  if (mlx5Library().query_device(context, &attributes) != 0) return std::nullopt;
  if ((attributes.comp_mask & mask) == 0) return std::nullopt;
  return attributes;
}

}  // namespace

bool isMlx5(ibv_device* device) {
  const Mlx5Library& mlx5 = mlx5Library();
  return mlx5.is_supported != nullptr && mlx5.is_supported(device);
}

std::string dataDirectPath(ibv_context* context, ibv_pd* pd) {
  if (!isMlx5(context->device)) return {};
  const Mlx5Library& mlx5 = mlx5Library();
  if (mlx5.get_data_direct_sysfs_path == nullptr || mlx5.reg_dmabuf_mr == nullptr) return {};
  // Probed with an invalid descriptor, as for dma-bufs in general: EBADF if the kernel knows the call.
  errno = 0;
  const Mr never(mlx5.reg_dmabuf_mr(pd, 0, 0, 0, -1, 0, 0));
  if (errno == EOPNOTSUPP || errno == EPROTONOSUPPORT || !dmaBufSupported(pd)) return {};
  char path[PATH_MAX] = "";
  const int error = mlx5.get_data_direct_sysfs_path(context, path, sizeof path);
  if (error == 0) return std::string("/sys") + path;
  if (error != ENODEV) {  // ENODEV: the device has no data-direct function
    RAILWISE_WARN("%s: mlx5dv_get_data_direct_sysfs_path failed: %s; its data-direct function is not used",
                  library().get_device_name(context->device), std::strerror(error));
  }
  return {};
}

uint32_t mlx5OutOfOrderReceives(ibv_context* context) {
  const auto attributes = queryMlx5(context, kContextOutOfOrder);
  return attributes && mlx5Library().create_qp != nullptr ? attributes->out_of_order_receives.rc : 0;
}

uint8_t mlx5LagPorts(ibv_context* context) {
  const auto attributes = queryMlx5(context, kContextLagPorts);
  return attributes && mlx5Library().modify_qp_lag_port != nullptr ? attributes->lag_ports : 0;
}

int setMlx5LagPort(ibv_qp* qp, uint8_t port) {
  const Mlx5Library& mlx5 = mlx5Library();
  return mlx5.modify_qp_lag_port != nullptr ? mlx5.modify_qp_lag_port(qp, port) : EOPNOTSUPP;
}

ibv_qp* createOutOfOrderQp(ibv_pd* pd, ibv_qp_init_attr& attributes) {
  const Mlx5Library& mlx5 = mlx5Library();
  if (mlx5.create_qp == nullptr) {
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
  ibv_qp* qp = mlx5.create_qp(pd->context, &extended, &mlx5_attributes);
  if (qp != nullptr) attributes.cap = extended.cap;
  return qp;
}

}  // namespace railwise::verbs
