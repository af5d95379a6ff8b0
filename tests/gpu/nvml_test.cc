// NVIDIA's machines, as the fake NVML describes them.
#include "tests/gpu/machines.h"

namespace railwise::gpu {
namespace {

using namespace test;

TEST(NvmlTest, DgxA100HasTwelveLinksToSixSwitches) {
  const GpuTopology machine = nvidia("dgx_a100");
  EXPECT_NO_REMARK(machine);
  ASSERT_EQ(machine.gpus.size(), 8u);
  const Device& gpu = machine.gpus[1];
  EXPECT_EQ(gpu.index, 1);
  EXPECT_EQ(gpu.vendor_index, 1);
  EXPECT_EQ(gpu.vendor, Vendor::kNvidia);
  EXPECT_EQ(gpu.model, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(gpu.memory_bytes, uint64_t{81920} << 20);
  EXPECT_EQ(gpu.memory_used_bytes, uint64_t{4} << 20);
  EXPECT_EQ(gpu.architecture, "8.0");
  EXPECT_EQ(gpu.sm, 80);
  EXPECT_EQ(gpu.busid, "0000:0f:00.0");
  EXPECT_EQ(gpu.uuid, "GPU-0000a100-0000-4000-8000-000000000001");
  EXPECT_EQ(gpu.numa, 0);
  EXPECT_EQ(machine.gpus[7].numa, 5);
  EXPECT_EQ(gpu.driver, "535.183.01");
  EXPECT_EQ(gpu.firmware, "92.00.45.00.03");
  EXPECT_FALSE(gpu.partitioned);
  EXPECT_EQ(gpu.parent, -1);
  EXPECT_EQ(gpu.fabric_state, "");
  const std::vector<Link> links = linksFrom(machine, 1);
  ASSERT_EQ(links.size(), 6u);
  for (const Link& link : links) {
    EXPECT_EQ(link.to, -1);
    EXPECT_EQ(link.kind, LinkKind::kNvswitch);
    EXPECT_EQ(link.latency, LatencyClass::kSwitched);
    EXPECT_EQ(link.width, 2);
    EXPECT_EQ(link.version, 3);
    EXPECT_DOUBLE_EQ(link.gb_per_s, 50);
  }
  EXPECT_EQ(links[0].to_busid, "0000:c1:00.0");
  ASSERT_EQ(machine.peers.size(), 56u);
  for (const PeerStatus& peer : machine.peers) EXPECT_TRUE(peer.allowed);
}

TEST(NvmlTest, DgxH100TellsLoadAndHealth) {
  const GpuTopology machine = nvidia("dgx_h100");
  EXPECT_NO_REMARK(machine);
  ASSERT_EQ(machine.gpus.size(), 8u);
  int width = 0;
  double gb_per_s = 0;
  for (const Link& link : linksFrom(machine, 0)) {
    width += link.width;
    gb_per_s += link.gb_per_s;
    EXPECT_EQ(link.version, 4);
  }
  EXPECT_EQ(width, 18);
  EXPECT_NEAR(gb_per_s, 18 * 26.562, 1e-6);
  EXPECT_EQ(machine.gpus[0].processes, 0);
  EXPECT_EQ(machine.gpus[3].processes, 2);
  EXPECT_EQ(machine.gpus[3].utilisation_percent, 97);
  EXPECT_EQ(machine.gpus[0].health.ecc_uncorrected, 0u);
  EXPECT_EQ(machine.gpus[5].health.ecc_uncorrected, 2u);
  EXPECT_EQ(machine.gpus[0].health.link_errors, 0u);
  EXPECT_EQ(machine.gpus[2].health.link_errors, 28u);  // 7 on each of four links
  EXPECT_EQ(machine.gpus[0].health.throttled, false);  // idle, which is no fault
  EXPECT_EQ(machine.gpus[6].health.throttled, true);
  EXPECT_EQ(machine.gpus[6].health.throttle_reason, "thermal (hardware), power cap");
  // The fabric of one host has no cluster.
  EXPECT_EQ(machine.gpus[0].fabric_state, "completed");
  EXPECT_EQ(machine.gpus[0].fabric_cluster, "");
  EXPECT_EQ(machine.gpus[0].fabric_clique, -1);
}

TEST(NvmlTest, Gb200BelongsToAnNvlinkDomainOverHosts) {
  const GpuTopology machine = nvidia("gb200");
  EXPECT_NO_REMARK(machine);
  ASSERT_EQ(machine.gpus.size(), 4u);
  EXPECT_EQ(machine.gpus[3].busid, "0019:01:00.0");
  EXPECT_EQ(machine.gpus[3].sm, 100);
  EXPECT_EQ(machine.gpus[3].fabric_state, "completed");
  EXPECT_EQ(machine.gpus[3].fabric_cluster, "8d1a1fa6-c5b0-4e0f-9a3b-2c4d5e6f7081");
  EXPECT_EQ(machine.gpus[3].fabric_clique, 32766);
  const std::vector<Link> links = linksFrom(machine, 3);
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[0].kind, LinkKind::kNvswitch);
  EXPECT_EQ(links[0].to_busid, "");
  EXPECT_EQ(links[0].width, 18);
  EXPECT_EQ(links[0].version, 5);
  EXPECT_DOUBLE_EQ(links[0].gb_per_s, 900);
  EXPECT_EQ(links[1].kind, LinkKind::kC2c);
  EXPECT_EQ(links[1].latency, LatencyClass::kPackage);
  EXPECT_EQ(links[1].width, 10);
  EXPECT_DOUBLE_EQ(links[1].gb_per_s, 450);
}

TEST(NvmlTest, L40sHasNoLinksAndNoPeers) {
  const GpuTopology machine = nvidia("l40s_pcie");
  EXPECT_NO_REMARK(machine);
  EXPECT_EQ(machine.gpus.size(), 4u);
  EXPECT_TRUE(machine.links.empty());
  EXPECT_EQ(machine.gpus[0].health.link_errors, std::nullopt);
  ASSERT_EQ(machine.peers.size(), 12u);
  EXPECT_FALSE(machine.peers[0].allowed);
  EXPECT_EQ(machine.peers[0].reason, "chipset not supported");
}

TEST(NvmlTest, LaptopLeavesUnknownWhatItDoesNotTell) {
  const GpuTopology machine = nvidia("laptop");
  EXPECT_NO_REMARK(machine);
  ASSERT_EQ(machine.gpus.size(), 1u);
  const Device& gpu = machine.gpus[0];
  EXPECT_EQ(gpu.model, "NVIDIA GeForce RTX 4070 Laptop GPU");
  EXPECT_EQ(gpu.numa, -1);
  EXPECT_EQ(gpu.health.ecc_uncorrected, std::nullopt);
  EXPECT_EQ(gpu.health.throttle_reason, "power cap");
  EXPECT_TRUE(machine.links.empty());
  EXPECT_TRUE(machine.peers.empty());
}

TEST(NvmlTest, LinksFromGpuToGpuHaveBothEnds) {
  const GpuTopology machine = nvidia("v100_cube");
  EXPECT_NO_REMARK(machine);
  ASSERT_EQ(machine.links.size(), 6u);
  const Link* link = linkBetween(machine, 0, 1);
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->kind, LinkKind::kNvlink);
  EXPECT_EQ(link->latency, LatencyClass::kDirect);
  EXPECT_EQ(link->width, 2);
  EXPECT_EQ(link->version, 2);
  EXPECT_DOUBLE_EQ(link->gb_per_s, 50);
  EXPECT_EQ(link->to_busid, "0000:07:00.0");
  const Link* back = linkBetween(machine, 2, 0);
  ASSERT_NE(back, nullptr);
  EXPECT_DOUBLE_EQ(back->gb_per_s, 25);
}

TEST(NvmlTest, MigInstancesAreDevicesOfTheirOwn) {
  const GpuTopology machine = nvidia("mig");
  EXPECT_NO_REMARK(machine);
  ASSERT_EQ(machine.gpus.size(), 4u);
  EXPECT_TRUE(machine.gpus[0].partitioned);
  EXPECT_EQ(machine.gpus[0].partition, "");
  const Device& large = machine.gpus[1];
  EXPECT_EQ(large.index, 1);
  EXPECT_EQ(large.vendor_index, 0);
  EXPECT_EQ(large.parent, 0);
  EXPECT_EQ(large.model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(large.partition, "MIG 3g.40gb");
  EXPECT_NEAR(large.share, 3.0 / 7, 1e-6);
  EXPECT_EQ(large.memory_bytes, uint64_t{40448} << 20);
  EXPECT_EQ(large.uuid, "MIG-00003161-0000-4000-8000-000000000000");
  EXPECT_EQ(large.busid, "0000:1b:00.0");
  EXPECT_EQ(large.driver, "550.90.07");
  EXPECT_EQ(large.numa, 0);
  EXPECT_EQ(large.sm, 90);
  const Device& small = machine.gpus[3];
  EXPECT_EQ(small.partition, "MIG 1g.10gb");
  EXPECT_NEAR(small.share, 1.0 / 7, 1e-6);
  EXPECT_EQ(small.processes, 2);
  EXPECT_TRUE(linksFrom(machine, 1).empty());  // instances have no NVLink
}

TEST(NvmlTest, AnOlderLibraryLeavesFieldsUnknown) {
  const GpuTopology machine = readFake(makeNvml, FAKE_OLD_NVML, "dgx_h100");
  ASSERT_EQ(machine.gpus.size(), 8u);
  EXPECT_EQ(machine.gpus[0].model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(machine.gpus[0].numa, -1);
  EXPECT_EQ(machine.gpus[3].processes, std::nullopt);
  EXPECT_EQ(machine.gpus[0].fabric_state, "");
  EXPECT_TRUE(machine.peers.empty());
  const std::vector<Link> links = linksFrom(machine, 0);
  ASSERT_EQ(links.size(), 4u);
  EXPECT_EQ(links[0].gb_per_s, 0);
  EXPECT_EQ(links[0].width, 5);
  EXPECT_EQ(links[0].version, 0);
  EXPECT_REMARK(machine, "does not tell how fast 5 NVLinks of NVIDIA GPU 0 to 0000:05:00.0 are");
}

TEST(NvmlTest, CallsThatFailLeaveFieldsUnknown) {
  const GpuTopology machine = nvidia("dgx_h100", "fail");
  ASSERT_EQ(machine.gpus.size(), 8u);
  EXPECT_EQ(machine.gpus[0].model, "");
  EXPECT_EQ(machine.gpus[0].memory_bytes, 0u);
  EXPECT_EQ(machine.gpus[0].health.ecc_uncorrected, std::nullopt);
  EXPECT_EQ(machine.gpus[0].health.throttled, std::nullopt);
  EXPECT_TRUE(machine.links.empty());
  EXPECT_TRUE(machine.peers.empty());
}

TEST(NvmlTest, ALinkToAGpuThatIsNotThereGivesARemark) {
  const GpuTopology machine = nvidia("v100_cube", "lie");
  ASSERT_EQ(machine.gpus.size(), 3u);
  EXPECT_REMARK(machine, "1 NVLink of NVIDIA GPU 0 leads to 0000:99:00.0, which the library does not list");
  const std::vector<Link> links = linksFrom(machine, 0);
  ASSERT_EQ(links.size(), 3u);
  for (const Link& link : links) EXPECT_EQ(link.to == -1, link.to_busid == "0000:99:00.0");
}

TEST(NvmlTest, AGpuThatIsLostIsNamedAndTheOthersStay) {
  const GpuTopology machine = nvidia("dgx_a100", "lost");
  ASSERT_EQ(machine.gpus.size(), 7u);
  EXPECT_EQ(machine.gpus[1].index, 1);
  EXPECT_EQ(machine.gpus[1].vendor_index, 2);
  EXPECT_REMARK(machine, "cannot open GPU 1: GPU is lost (15)");
}

TEST(NvmlTest, ANumberOfGpusBeyondSenseIsCut) {
  const GpuTopology machine = nvidia("laptop", "many");
  EXPECT_EQ(machine.gpus.size(), 1u);
  EXPECT_REMARK(machine, "speaks of 4000000000 GPUs");
}

TEST(NvmlTest, TextsWithoutAnEndAreLeftOut) {
  const GpuTopology machine = nvidia("laptop", "endless");
  ASSERT_EQ(machine.gpus.size(), 1u);
  EXPECT_EQ(machine.gpus[0].model, "");
  EXPECT_EQ(machine.gpus[0].sm, 89);
  EXPECT_REMARK(machine, "the name of NVIDIA GPU 0 has no end");
}

TEST(NvmlTest, WithoutADriverThereIsARemark) {
  const GpuTopology machine = nvidia("laptop", "noinit");
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_REMARK(machine, "is installed but does not start: Driver Not Loaded (9)");
}

}  // namespace
}  // namespace railwise::gpu
