#include "verbs/gpu_direct.h"

#include "railwise/device.h"
#include "sysfs/pci_devices.h"
#include "verbs/memory_region.h"
#include "verbs/port.h"

namespace railwise::verbs {
namespace {

constexpr std::size_t kMostSymbols = 64UL << 20;  // bytes; /proc/kallsyms has some 15 MiB

}  // namespace

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

std::string peerMemoryModule(const sysfs::FileTree& tree) {
  struct Sign {
    const char* module;
    const char* file;
  };
  // NVIDIA's modules as in NCCL 2.30.7, net_ib/gdr.cc; AMD's as in RCCL, net_ib.cc.
  static constexpr Sign kSigns[] = {
      {"nvidia_peermem", "/sys/module/nvidia_peermem/version"},
      {"nv_peer_mem", "/sys/kernel/mm/memory_peers/nv_mem/version"},
      {"nvidia_peermem, no persistent clients", "/sys/kernel/mm/memory_peers/nv_mem_nc/version"},
      {"amdgpu", "/sys/kernel/mm/memory_peers/amdkfd/version"},
      {"amdgpu", "/sys/kernel/memory_peers/amdkfd/version"},
      {"amdgpu", "/sys/memory_peers/amdkfd/version"},
  };
  for (const Sign& sign : kSigns) {
    if (tree.exists(sign.file)) return sign.module;
  }
  // AMD's driver registers itself with RDMA drivers that have the function: MLNX_OFED's on newer kernels.
  if (!sysfs::runsRccl(tree)) return {};
  const std::string symbols = tree.read("/proc/kallsyms", kMostSymbols).value_or("");
  for (const char* const symbol : {"t ib_register_peer_memory_client", "T ib_register_peer_memory_client"})
    if (symbols.find(symbol) != std::string::npos) return "amdgpu";
  return {};
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
  return gpuDirectOf(pciPlace(pd->context->device).software, peerMemoryModule(*sysfs::makeLiveTree(root)),
                     dma_buf);
}

}  // namespace railwise::verbs
