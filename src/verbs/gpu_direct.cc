#include "verbs/gpu_direct.h"

#include "verbs/memory_region.h"
#include "verbs/sysfs.h"

namespace railwise::verbs {

std::string GpuDirect::text() const {
  const std::string module = "peermem (" + peer_memory + ")";
  if (dma_buf) return peer_memory.empty() ? "dma-buf" : "dma-buf and " + module;
  if (!peer_memory.empty()) return module;
  return "none, because " + missing_dma_buf;
}

GpuDirect gpuDirect(ibv_pd* pd, const std::string& root) {
  GpuDirect answer;
  if (library().pci_path != nullptr) {
    answer.missing_dma_buf = "the software device moves bytes with the CPU";
    return answer;
  }
  answer.peer_memory = peerMemoryModule(root);
  answer.dma_buf = dmaBufSupported(pd);
  if (!answer.dma_buf) {
    answer.missing_dma_buf =
        library().reg_dmabuf_mr == nullptr
            ? "libibverbs registers no dma-bufs (rdma-core 34 does)"
            : "the kernel or the NIC's driver registers no dma-bufs (Linux 5.12 and mlx5 do)";
    answer.missing_dma_buf += ", and no peer-memory module is loaded (modprobe nvidia_peermem)";
  }
  return answer;
}

}  // namespace railwise::verbs
