// AMD's machines, as the fake ROCm SMI describes them (AMD SMI tells them alike: amd_smi_test.cc), and
// Debian's real library on a machine without GPUs.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>

#include "tests/gpu/machines.h"

namespace railwise::gpu {
namespace {

using namespace test;

TEST(RocmSmiTest, Mi300xInSpxIsEightWholeGpus) {
  const GpuTopology machine = amd("mi300x_spx");
  EXPECT_NO_REMARK(machine);
  ASSERT_EQ(machine.gpus.size(), 8u);
  const Device& gpu = machine.gpus[1];
  EXPECT_EQ(gpu.index, 1);
  EXPECT_EQ(gpu.vendor, Vendor::kAmd);
  EXPECT_EQ(gpu.vendor_index, 1);
  EXPECT_EQ(gpu.model, "AMD Instinct MI300X");
  EXPECT_EQ(gpu.memory_bytes, uint64_t{196592} << 20);
  EXPECT_EQ(gpu.memory_used_bytes, uint64_t{284} << 20);
  EXPECT_EQ(gpu.architecture, "gfx942");
  EXPECT_EQ(gpu.sm, 0);
  EXPECT_EQ(gpu.busid, "0000:26:00.0");
  EXPECT_EQ(gpu.uuid, "0x8c5b2d1e00000001");
  EXPECT_EQ(gpu.numa, 0);
  EXPECT_EQ(machine.gpus[4].numa, 1);
  EXPECT_EQ(gpu.driver, "6.8.5");
  EXPECT_EQ(gpu.firmware, "113-M3000100-103");
  EXPECT_EQ(gpu.partition, "");
  EXPECT_FALSE(gpu.partitioned);
  EXPECT_EQ(gpu.share, 1);
  EXPECT_EQ(machine.gpus[0].processes, 1);
  EXPECT_EQ(machine.gpus[1].processes, 2);
  EXPECT_EQ(machine.gpus[2].processes, 0);
  EXPECT_EQ(gpu.utilisation_percent, 0);
  EXPECT_EQ(gpu.health.ecc_uncorrected, 0u);
  EXPECT_EQ(gpu.health.link_errors, 0u);
  EXPECT_EQ(gpu.health.throttled, std::nullopt);
  ASSERT_EQ(machine.links.size(), 56u);
  const Link* link = linkBetween(machine, 0, 7);
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->kind, LinkKind::kXgmi);
  EXPECT_EQ(link->latency, LatencyClass::kDirect);
  EXPECT_EQ(link->width, 1);
  EXPECT_DOUBLE_EQ(link->gb_per_s, 48);
  EXPECT_EQ(link->to_busid, "0000:e5:00.0");
  ASSERT_EQ(machine.peers.size(), 56u);
  EXPECT_TRUE(machine.peers[0].allowed);
}

TEST(RocmSmiTest, Mi300xInCpxIsEightPartitionsOfEachGpu) {
  const GpuTopology machine = amd("mi300x_cpx");
  EXPECT_NO_REMARK(machine);
  ASSERT_EQ(machine.gpus.size(), 16u);
  const Device& second = machine.gpus[9];
  EXPECT_EQ(second.partition, "CPX");
  EXPECT_TRUE(second.partitioned);
  EXPECT_DOUBLE_EQ(second.share, 1.0 / 8);
  EXPECT_EQ(second.busid, "0000:26:00.1");
  EXPECT_EQ(second.parent, -1);
  EXPECT_EQ(second.processes, 1);
  ASSERT_NE(linkBetween(machine, 0, 7), nullptr);
  EXPECT_EQ(linkBetween(machine, 0, 7)->kind, LinkKind::kInfinityFabric);
  EXPECT_EQ(linkBetween(machine, 0, 7)->latency, LatencyClass::kPackage);
  ASSERT_NE(linkBetween(machine, 7, 8), nullptr);
  EXPECT_EQ(linkBetween(machine, 7, 8)->kind, LinkKind::kXgmi);
}

// ROCm SMI does not tell which dies share a package; the links between them have four times the bandwidth.
TEST(RocmSmiTest, Mi250IsTwoDiesEach) {
  const GpuTopology machine = amd("mi250");
  EXPECT_NO_REMARK(machine);
  ASSERT_EQ(machine.gpus.size(), 4u);
  EXPECT_EQ(machine.gpus[0].architecture, "gfx90a");
  EXPECT_EQ(machine.gpus[0].partition, "");
  const Link* inside = linkBetween(machine, 0, 1);
  ASSERT_NE(inside, nullptr);
  EXPECT_EQ(inside->kind, LinkKind::kXgmi);
  EXPECT_EQ(inside->width, 4);
  EXPECT_DOUBLE_EQ(inside->gb_per_s, 200);
  const Link* between = linkBetween(machine, 1, 3);
  ASSERT_NE(between, nullptr);
  EXPECT_EQ(between->width, 1);
  EXPECT_DOUBLE_EQ(between->gb_per_s, 50);
  EXPECT_EQ(linkBetween(machine, 0, 3), nullptr);  // two hops: over another die
  ASSERT_NE(linkBetween(machine, 1, 2), nullptr);
  EXPECT_EQ(linkBetween(machine, 1, 2)->kind, LinkKind::kPcie);
  const auto refused = std::find_if(machine.peers.begin(), machine.peers.end(),
                                    [](const PeerStatus& peer) { return peer.from == 1 && peer.to == 2; });
  ASSERT_NE(refused, machine.peers.end());
  EXPECT_FALSE(refused->allowed);
  EXPECT_EQ(refused->reason, "not accessible");
}

TEST(RocmSmiTest, AnOlderLibraryLeavesFieldsUnknown) {
  const GpuTopology machine = readFake(makeRocmSmi, FAKE_OLD_ROCM_SMI, "mi300x_spx");
  ASSERT_EQ(machine.gpus.size(), 8u);
  EXPECT_EQ(machine.gpus[0].model, "AMD Instinct MI300X");
  EXPECT_EQ(machine.gpus[0].architecture, "");
  EXPECT_EQ(machine.gpus[0].processes, std::nullopt);
  EXPECT_TRUE(machine.peers.empty());
  ASSERT_EQ(machine.links.size(), 56u);
  EXPECT_EQ(machine.links[0].gb_per_s, 0);
  EXPECT_REMARK(machine, "does not tell how fast xGMI is from AMD GPU 0 to 1");
}

TEST(RocmSmiTest, CallsThatFailLeaveFieldsUnknown) {
  const GpuTopology machine = amd("mi300x_spx", "fail");
  ASSERT_EQ(machine.gpus.size(), 8u);
  EXPECT_EQ(machine.gpus[0].model, "");
  EXPECT_EQ(machine.gpus[0].busid, "");
  EXPECT_EQ(machine.gpus[0].health.ecc_uncorrected, std::nullopt);
  EXPECT_EQ(machine.gpus[0].health.link_errors, std::nullopt);
  EXPECT_TRUE(machine.links.empty());
}

TEST(RocmSmiTest, ANumberOfGpusBeyondSenseIsCut) {
  const GpuTopology machine = amd("mi250", "many");
  EXPECT_LE(machine.gpus.size(), 256u);
  EXPECT_REMARK(machine, "speaks of 4000000000 GPUs");
}

TEST(RocmSmiTest, TextsWithoutAnEndAreLeftOut) {
  const GpuTopology machine = amd("mi250", "endless");
  ASSERT_EQ(machine.gpus.size(), 4u);
  EXPECT_EQ(machine.gpus[0].model, "");
  EXPECT_REMARK(machine, "the name of AMD GPU 0 has no end");
}

TEST(RocmSmiTest, WithoutADriverThereIsARemark) {
  const GpuTopology machine = amd("mi250", "noinit");
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_REMARK(machine, "is installed but does not start: RSMI_STATUS_INIT_ERROR (8)");
}

TEST(RocmSmiTest, DebiansLibraryFindsNoGpuWithoutACrash) {
  void* library = dlopen("librocm_smi64.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) GTEST_SKIP() << "librocm_smi64.so.1 is not there: install librocm-smi64-1";
  dlclose(library);
  const GpuTopology machine = readFake(makeRocmSmi, "", "none");
  if (!machine.gpus.empty()) GTEST_SKIP() << "this machine has AMD GPUs";
  if (access("/sys/module/amdgpu", F_OK) == 0) GTEST_SKIP() << "this machine has AMD's driver";
  EXPECT_NO_REMARK(machine);
}

}  // namespace
}  // namespace railwise::gpu
