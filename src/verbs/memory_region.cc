#include "verbs/memory_region.h"

#include <cerrno>
#include <cstring>

namespace railwise::verbs {
namespace {

Status registrationFailed(const char* call, const ibv_pd* pd, uint64_t address, size_t bytes) {
  const int error = errno;
  const char* advice =
      error == ENOMEM   ? ": raise the locked-memory limit (ulimit -l unlimited; docker --ulimit memlock=-1)"
      : error == EFAULT ? ": the memory is not mapped, or is GPU memory without nvidia_peermem"
                        : "";
  RAILWISE_WARN("%s: %s of %zu bytes at 0x%lx failed: %s%s", library().get_device_name(pd->context->device),
                call, bytes, static_cast<unsigned long>(address), std::strerror(error), advice);
  return {Code::kSystem, error};
}

}  // namespace

Result<Mr> registerMemory(ibv_pd* pd, void* address, size_t bytes, int access) {
  Mr mr(library().reg_mr(pd, address, bytes, access));
  if (mr == nullptr) return registrationFailed("ibv_reg_mr", pd, reinterpret_cast<uint64_t>(address), bytes);
  return mr;
}

Result<Mr> registerDmaBuf(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access,
                          bool) {
  if (library().reg_dmabuf_mr == nullptr) {
    RAILWISE_WARN(
        "this libibverbs has no ibv_reg_dmabuf_mr: install rdma-core 34 or later, or set "
        "NCCL_DMABUF_ENABLE=0");
    return Status{Code::kSystem, EOPNOTSUPP};
  }
  Mr mr(library().reg_dmabuf_mr(pd, offset, bytes, iova, fd, access));
  if (mr == nullptr) return registrationFailed("ibv_reg_dmabuf_mr", pd, iova, bytes);
  return mr;
}

bool dmaBufSupported(ibv_pd* pd) {
  if (library().reg_dmabuf_mr == nullptr) return false;
  errno = 0;
  const Mr never(library().reg_dmabuf_mr(pd, 0, 0, 0, -1, 0));
  return errno != EOPNOTSUPP && errno != EPROTONOSUPPORT;
}

}  // namespace railwise::verbs
