#include "sysfs/peer_memory.h"

#include "sysfs/pci_devices.h"

namespace railwise::sysfs {

std::string peerMemoryModule(const FileTree& tree) {
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
  if (!runsRccl(tree)) return {};
  constexpr std::size_t kMostBytes = 64UL << 20;  // the file has some 15 MiB
  if (!peerMemorySymbols(tree.read(kKernelSymbols, kMostBytes).value_or("")).empty()) return "amdgpu";
  return {};
}

std::string peerMemorySymbols(std::string_view symbols) {
  std::string lines;
  for (const char* const symbol : {"t ib_register_peer_memory_client", "T ib_register_peer_memory_client"})
    if (symbols.find(symbol) != std::string_view::npos) lines += std::string("0 ") + symbol + "\n";
  return lines;
}

}  // namespace railwise::sysfs
