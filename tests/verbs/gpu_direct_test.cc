#include "verbs/gpu_direct.h"

#include "software_device.h"
#include "sysfs/peer_memory.h"

namespace railwise::verbs {
namespace {

TEST(GpuDirect, IsSaidInWords) {
  EXPECT_EQ((GpuDirect{true, "", ""}).text(), "dma-buf");
  EXPECT_EQ((GpuDirect{false, "nvidia_peermem", "no"}).text(), "peermem (nvidia_peermem)");
  EXPECT_EQ((GpuDirect{true, "nvidia_peermem", ""}).text(), "dma-buf and peermem (nvidia_peermem)");
  EXPECT_EQ((GpuDirect{false, "", "it rains"}).text(), "none, because it rains");
}

TEST(GpuDirect, TheSoftwareDeviceHasNone) {
  const test::SoftwareDevice device;
  const Context context = device.open();
  const Pd pd(library().alloc_pd(context.get()));
  const GpuDirect answer = gpuDirect(pd.get());
  EXPECT_FALSE(answer.dma_buf);
  EXPECT_TRUE(answer.text().starts_with("none, because the software device moves bytes with the CPU"));
}

TEST(GpuDirect, TheSoftwareDeviceHasWhatItIsTold) {
  const auto textOf = [](const char* keys) {
    const test::SoftwareDevice device(keys);
    const Context context = device.open();
    const Pd pd(library().alloc_pd(context.get()));
    return gpuDirect(pd.get()).text();
  };
  EXPECT_EQ(textOf("gpudirect=on"), "dma-buf and peermem (the software device's)");
  EXPECT_EQ(textOf("gpudirect=peermem"), "peermem (the software device's)");
  EXPECT_EQ(textOf("gpudirect=dmabuf"), "dma-buf");
  EXPECT_EQ(textOf("gpudirect=on,dmabuf=off"), "peermem (the software device's)");
}

// Its driver pins pages of the CPU; a module for NVIDIA's GPUs beside it changes nothing.
TEST(GpuDirect, OfSoftRoceIsNoneWhateverIsLoaded) {
  const GpuDirect answer = gpuDirectOf(true, "nvidia_peermem", DmaBuf::kNo);
  EXPECT_EQ(answer.peer_memory, "");
  EXPECT_EQ(answer.text(), "none, because Soft-RoCE and soft-iWARP move bytes with the CPU");
  EXPECT_EQ(gpuDirectOf(false, "nvidia_peermem", DmaBuf::kNo).text(), "peermem (nvidia_peermem)");
}

TEST(PeerMemoryModule, IsNamedByWhatItPublishes) {
  sysfs::MemoryTree tree;
  EXPECT_EQ(sysfs::peerMemoryModule(tree), "");
  for (const auto& [folder, module] : {std::pair("/sys/memory_peers/amdkfd", "amdgpu"),
                                       std::pair("/sys/kernel/mm/memory_peers/nv_mem", "nv_peer_mem"),
                                       std::pair("/sys/module/nvidia_peermem", "nvidia_peermem")}) {
    tree.file(folder + std::string("/version"), "1\n");
    EXPECT_EQ(sysfs::peerMemoryModule(tree), module);
  }
}

// The function is there too where NVIDIA's GPUs run and nvidia_peermem is not loaded.
TEST(PeerMemoryModule, OfAmdIsToldByTheKernelsSymbolsToo) {
  sysfs::MemoryTree tree;
  tree.file("/proc/kallsyms",
            "0 T ib_register_client\t[ib_core]\n0 T ib_register_peer_memory_client\t[ib_core]\n");
  EXPECT_EQ(sysfs::peerMemoryModule(tree), "");
  tree.folder("/sys/module/amdgpu");
  EXPECT_EQ(sysfs::peerMemoryModule(tree), "amdgpu");
  tree.folder("/sys/module/nvidia");
  EXPECT_EQ(sysfs::peerMemoryModule(tree), "");
}

TEST(PeerMemoryModule, OfAmdNeedsTheFunction) {
  sysfs::MemoryTree tree;
  tree.folder("/sys/module/amdgpu");
  tree.file("/proc/kallsyms", "0 T ib_register_client\t[ib_core]\n0 U ib_register_peer_memory_client\n");
  EXPECT_EQ(sysfs::peerMemoryModule(tree), "");
}

}  // namespace
}  // namespace railwise::verbs
