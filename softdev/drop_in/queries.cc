// Queries about a device and its ports.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "softdev/drop_in/front.h"

using namespace railwise;
using softdev::guarded;

namespace railwise::drop_in {
namespace {

// Our own copies of declarations that releases of <infiniband/verbs.h> after the oldest supported one
// (rdma-core 44) have added. Layouts are those of rdma-core and never change; rdma-core adds new fields at
// the end.

// ibv_mr_init_attr of ibv_reg_mr_ex (rdma-core 59), up to `dmah`.
struct MrInitAttr {
  size_t length;
  int access;
  uint64_t comp_mask;  // bits kMr...
  uint64_t iova;
  void* address;
  int fd;
  uint64_t fd_offset;
  void* dma_handle;
};
constexpr uint64_t kMrIova = 1, kMrAddress = 2, kMrFd = 4, kMrFdOffset = 8;

}  // namespace
}  // namespace railwise::drop_in

RAILWISE_EXPORT __be64 ibv_get_device_guid(ibv_device* device) { return softdev::getDeviceGuid(device); }

// The kernel's number of a device. -1: it has no number.
RAILWISE_EXPORT int ibv_get_device_index(ibv_device*) { return -1; }

RAILWISE_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  return guarded([&] { return softdev::queryDevice(context, attr); });
}

// The struct of libibverbs 1.1 ends before port_cap_flags2, and old programs have no more room. The inline
// function of today's header calls verbs_context.query_port instead.
RAILWISE_EXPORT int ibv_query_port(ibv_context* context, uint8_t port_num, _compat_ibv_port_attr* attr) {
  ibv_port_attr whole;
  if (const int error = softdev::queryPort(context, port_num, &whole); error != 0) return error;
  std::memcpy(attr, &whole, offsetof(ibv_port_attr, port_cap_flags2));
  return 0;
}

RAILWISE_EXPORT int ibv_query_port_speed(ibv_context* context, uint32_t port_num, uint64_t* speed) {
  return guarded([&] { return softdev::queryPortSpeed(context, port_num, speed); });
}

// ibv_reg_mr_ex(3): registers memory that a struct describes. Its comp_mask says which fields are set.
RAILWISE_EXPORT ibv_mr* ibv_reg_mr_ex(ibv_pd* pd, struct ibv_mr_init_attr* attributes) {
  const auto& attr = *reinterpret_cast<const drop_in::MrInitAttr*>(attributes);
  using namespace drop_in;
  if ((attr.comp_mask & ~(kMrIova | kMrAddress | kMrFd | kMrFdOffset)) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  const bool dma_buf = (attr.comp_mask & kMrFd) != 0;
  const bool has_address = (attr.comp_mask & kMrAddress) != 0;
  if (dma_buf == has_address || dma_buf != ((attr.comp_mask & kMrFdOffset) != 0)) {
    errno = EINVAL;
    return nullptr;
  }
  if (dma_buf) {
    const uint64_t iova = (attr.comp_mask & kMrIova) != 0 ? attr.iova : attr.fd_offset;
    return guarded(
        [&] { return softdev::regDmabufMr(pd, attr.fd_offset, attr.length, iova, attr.fd, attr.access); });
  }
  const uint64_t iova =
      (attr.comp_mask & kMrIova) != 0 ? attr.iova : reinterpret_cast<uintptr_t>(attr.address);
  return guarded([&] {
    return softdev::regMrIova2(pd, attr.address, attr.length, iova, static_cast<unsigned>(attr.access));
  });
}
