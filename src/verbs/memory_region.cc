#include "verbs/memory_region.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "verbs/drivers/mlx5_library.h"

namespace railwise::verbs {
namespace {

constexpr int kDmaBufDataDirect = 1 << 0;  // MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT of rdma-core 65

// "8192 KiB", "unlimited"
std::string lockedMemoryLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur / 1024) + " KiB";
}

std::string adviceFor(int error) {
  switch (error) {
    case ENOMEM:
      return ": out of memory that may be locked; the limit is " + lockedMemoryLimit() +
             ". Raise it (ulimit -l unlimited, docker run --ulimit memlock=-1, LimitMEMLOCK=infinity for "
             "systemd, memlock in /etc/security/limits.conf) or register less";
    case EFAULT:
      return ": the memory is not mapped, or is GPU memory without nvidia_peermem";
    default:
      return "";
  }
}

Status registrationFailed(const char* call, const ibv_pd* pd, uint64_t address, size_t bytes, int error,
                          bool again) {
  const char* const device = library().get_device_name(pd->context->device);
  const auto at = static_cast<unsigned long>(address);
  if (again && mayPass(error))
    RAILWISE_INFO(log::kReg, "%s: %s of %zu bytes at 0x%lx failed: %s; trying again", device, call, bytes, at,
                  std::strerror(error));
  else
    RAILWISE_WARN("%s: %s of %zu bytes at 0x%lx failed: %s%s", device, call, bytes, at, std::strerror(error),
                  adviceFor(error).c_str());
  return {Code::kSystem, error};
}

}  // namespace

int relaxedOrdering(const Config& config) {
  return config.ib_pci_relaxed_ordering != 0 && library().reg_mr_iova2 != nullptr ? kRelaxedOrdering : 0;
}

Result<Mr> registerMemory(ibv_pd* pd, void* address, size_t bytes, int access, bool again) {
  const auto iova = reinterpret_cast<uint64_t>(address);
  const bool optional = (access & IBV_ACCESS_OPTIONAL_RANGE) != 0 && library().reg_mr_iova2 != nullptr;
  int error = 0;
  Mr mr(makeOrExplain(
      [&] {
        return optional ? library().reg_mr_iova2(pd, address, bytes, iova, static_cast<unsigned>(access))
                        : library().reg_mr(pd, address, bytes, access & ~IBV_ACCESS_OPTIONAL_RANGE);
      },
      error));
  if (mr == nullptr)
    return registrationFailed(optional ? "ibv_reg_mr_iova2" : "ibv_reg_mr", pd, iova, bytes, error, again);
  return mr;
}

ibv_mr* registerDataDirect(ibv_pd* pd, uint64_t offset, std::size_t bytes, uint64_t iova, int fd,
                           int access) {
  const Mlx5Library& mlx5 = mlx5Library();
  if (mlx5.reg_dmabuf_mr == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return mlx5.reg_dmabuf_mr(pd, offset, bytes, iova, fd, access, kDmaBufDataDirect);
}

Result<Mr> registerDmaBuf(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access,
                          bool data_direct, bool again) {
  int error = 0;
  if (data_direct) {
    Mr mr(makeOrExplain([&] { return registerDataDirect(pd, offset, bytes, iova, fd, access); }, error));
    if (mr == nullptr)
      return registrationFailed("mlx5dv_reg_dmabuf_mr (data-direct)", pd, iova, bytes, error, again);
    return mr;
  }
  if (library().reg_dmabuf_mr == nullptr) {
    RAILWISE_WARN(
        "this libibverbs has no ibv_reg_dmabuf_mr: install rdma-core 34 or later, or set "
        "NCCL_DMABUF_ENABLE=0");
    return Status{Code::kSystem, EOPNOTSUPP};
  }
  Mr mr(makeOrExplain([&] { return library().reg_dmabuf_mr(pd, offset, bytes, iova, fd, access); }, error));
  if (mr == nullptr) return registrationFailed("ibv_reg_dmabuf_mr", pd, iova, bytes, error, again);
  return mr;
}

bool dmaBufSupported(ibv_pd* pd) {
  if (library().reg_dmabuf_mr == nullptr) return false;
  errno = 0;
  const Mr never(library().reg_dmabuf_mr(pd, 0, 0, 0, -1, 0));
  return errno != EOPNOTSUPP && errno != EPROTONOSUPPORT;
}

}  // namespace railwise::verbs
