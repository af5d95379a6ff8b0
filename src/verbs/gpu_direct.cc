#include "verbs/gpu_direct.h"

#include "railwise/device.h"
#include "sysfs/peer_memory.h"
#include "verbs/memory_region.h"
#include "verbs/port.h"

namespace railwise::verbs {

std::string GpuDirect::text() const {
  const std::string module = "peermem (" + peer_memory + ")";
  if (dma_buf) return peer_memory.empty() ? "dma-buf" : "dma-buf and " + module;
  if (!peer_memory.empty()) return module;
  return "none, because " + missing_dma_buf;
}

GpuDirect gpuDirectOf(bool software, std::string peer_memory, DmaBuf dma_buf) {
  GpuDirect answer;
  answer.dma_buf = dma_buf == DmaBuf::kYes;
  if (!software) answer.peer_memory = std::move(peer_memory);
  if (answer.dma_buf) return answer;
  if (software) {
    answer.missing_dma_buf = "Soft-RoCE and soft-iWARP move bytes with the CPU";
    return answer;
  }
  answer.missing_dma_buf =
      dma_buf == DmaBuf::kUnknownToLibrary
          ? "libibverbs registers no dma-bufs (rdma-core 34 does)"
          : "the kernel or the NIC's driver registers no dma-bufs (Linux 5.12 and mlx5 do)";
  answer.missing_dma_buf += ", and no peer-memory module is loaded (modprobe nvidia_peermem)";
  return answer;
}

GpuDirect gpuDirect(ibv_pd* pd, const std::string& root) {
  if (library().gpu_memory != nullptr) {
    const unsigned ways = library().gpu_memory(pd->context->device);
    GpuDirect answer;
    answer.dma_buf = (ways & RAILWISE_DEVICE_GPU_BY_DMABUF) != 0;
    if ((ways & RAILWISE_DEVICE_GPU_BY_ADDRESS) != 0) answer.peer_memory = "the software device's";
    if (!answer.dma_buf)
      answer.missing_dma_buf =
          "the software device moves bytes with the CPU; gpudirect=on is for software GPUs";
    return answer;
  }
  const DmaBuf dma_buf = dmaBufSupported(pd)                  ? DmaBuf::kYes
                         : library().reg_dmabuf_mr == nullptr ? DmaBuf::kUnknownToLibrary
                                                              : DmaBuf::kNo;
  return gpuDirectOf(pciPlace(pd->context->device).software,
                     sysfs::peerMemoryModule(*sysfs::makeLiveTree(root)), dma_buf);
}

}  // namespace railwise::verbs
