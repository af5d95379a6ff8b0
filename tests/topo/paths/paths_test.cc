// Path types, bandwidths and hops, and the ways that P2P, GPUDirect and PXN reroute.
#include "topo/paths/paths.h"

#include <gtest/gtest.h>

#include "tests/ok.h"
#include "tests/topo/output_machines.h"

namespace railwise::topo::test {
namespace {

const Path& path(const Machine& machine, NodeType from, int i, NodeType to, int j) {
  return machine.paths->get(from, i, to, j);
}

std::string text(const Machine& machine, const Path& path) {
  char line[64];
  std::snprintf(line, sizeof line, "%s %g %d", pathTypeName(path.type), static_cast<double>(path.bandwidth),
                path.hops);
  std::string all = line;
  for (const NodeIndex node : machine.paths->via(path)) all += " " + machine.graph->label(node);
  return all;
}

std::string gpuNet(const Machine& machine, int g, int n) {
  return text(machine, path(machine, NodeType::kGpu, g, NodeType::kNet, n));
}
std::string netGpu(const Machine& machine, int n, int g) {
  return text(machine, path(machine, NodeType::kNet, n, NodeType::kGpu, g));
}

TEST(PathsTest, OneSwitchIsPixTwoArePxb) {
  EXPECT_EQ(gpuNet(machineOf(twoSwitches()), 0, 0),
            "PIX 48 4 DEV/0000:11:00.0 PCI/0000:10:00.0 NIC/0000:12:00.0");
  const Machine tree =
      machineOf(systemOf(cpu(0, pciSwitch("0000:0f:00.0", pciSwitch("0000:10:00.0", gpu(0, "0000:11:00.0")) +
                                                              nic(0, "0000:12:00.0", "mlx5_0")))));
  EXPECT_EQ(gpuNet(tree, 0, 0),
            "PXB 48 5 DEV/0000:11:00.0 PCI/0000:10:00.0 PCI/0000:0f:00.0 NIC/0000:12:00.0");
}

TEST(PathsTest, TheCpuMakesPhbAndTheOtherCpuSys) {
  const Machine machine = machineOf(twoSwitches(), {.pxn_disable = 1});
  EXPECT_EQ(gpuNet(machine, 0, 1),
            "SYS 22 7 DEV/0000:11:00.0 PCI/0000:10:00.0 CPU/0 CPU/1 PCI/0000:20:00.0 NIC/0000:22:00.0");
  EXPECT_EQ(path(machine, NodeType::kNet, 0, NodeType::kCpu, 0).type, PathType::kPhb);
  EXPECT_EQ(path(machine, NodeType::kCpu, 0, NodeType::kCpu, 1).type, PathType::kSys);
}

TEST(PathsTest, PxnGoesThroughTheGpuNearTheNicAndOnlyOneWay) {
  const Machine machine = machineOf(twoSwitches());
  EXPECT_EQ(gpuNet(machine, 0, 1),
            "PXN 48 8 DEV/0000:11:00.0 NVS/0 DEV/0000:21:00.0 GPU/1 DEV/0000:21:00.0 PCI/0000:20:00.0 "
            "NIC/0000:22:00.0");
  EXPECT_EQ(path(machine, NodeType::kNet, 1, NodeType::kGpu, 0).type, PathType::kSys);
}

TEST(PathsTest, WithoutGpuDirectTrafficGoesThroughTheCpu) {
  std::string xml = twoSwitches();
  const std::size_t nic0 = xml.find("guid=\"0x0\" gdr=\"1\"");
  xml.replace(nic0, 18, "guid=\"0x0\" gdr=\"0\"");
  const Machine machine = machineOf(xml);
  EXPECT_EQ(gpuNet(machine, 0, 0),
            "PHB 48 6 DEV/0000:11:00.0 PCI/0000:10:00.0 CPU/0 PCI/0000:10:00.0 NIC/0000:12:00.0");
  EXPECT_EQ(netGpu(machine, 0, 0),
            "PHB 48 6 NIC/0000:12:00.0 PCI/0000:10:00.0 CPU/0 PCI/0000:10:00.0 DEV/0000:11:00.0");
}

TEST(PathsTest, GpusOverNvswitchAreFourHopsApart) {
  EXPECT_EQ(
      text(machineOf(twoSwitches()), path(machineOf(twoSwitches()), NodeType::kGpu, 0, NodeType::kGpu, 1))
          .substr(0, 11),
      "NVL 370.8 4");
}

// A chain of NVLinks: 0 - 1 - 2.
std::string chain() {
  const auto linked = [](int rank, const std::string& busid, const std::vector<std::string>& peers) {
    std::string links;
    for (const std::string& peer : peers)
      links += "<nvlink target=\"" + peer + "\" count=\"1\" tclass=\"0x030200\"/>\n";
    const std::string number = std::to_string(rank);
    return pci(
        busid, "0x030200",
        "<gpu dev=\"" + number + "\" sm=\"70\" rank=\"" + number + "\" gdr=\"1\">\n" + links + "</gpu>\n");
  };
  return systemOf(cpu(0, linked(0, "0000:01:00.0", {"0000:02:00.0"}) +
                             linked(1, "0000:02:00.0", {"0000:01:00.0", "0000:03:00.0"}) +
                             linked(2, "0000:03:00.0", {"0000:02:00.0"})));
}

TEST(PathsTest, OneGpuInBetweenIsNvbUnlessSwitchedOff) {
  const Machine machine = machineOf(chain());
  EXPECT_EQ(text(machine, path(machine, NodeType::kGpu, 0, NodeType::kGpu, 2)),
            "NVB 20 4 DEV/0000:01:00.0 DEV/0000:02:00.0 DEV/0000:03:00.0");
  Settings without{.nvb_disable = 1};
  EXPECT_EQ(path(machineOf(chain(), without), NodeType::kGpu, 0, NodeType::kGpu, 2).type, PathType::kPhb);
}

TEST(PathsTest, In228GpusHaveNoDeviceNodes) {
  const Machine machine = machineOf(twoSwitches(), {.nccl = NcclVersion::k2_28});
  EXPECT_EQ(gpuNet(machine, 0, 0), "PIX 48 3 PCI/0000:10:00.0 NIC/0000:12:00.0");
  EXPECT_EQ(text(machine, path(machine, NodeType::kGpu, 0, NodeType::kGpu, 1)), "NVL 370.8 2 NVS/0");
}

// Two GPUs with a slow NVLink (20 GB/s) and fast PCIe (48 GB/s) between them, one of each end on a switch of
// its own: 2.30 goes by type, 2.28 takes the more bandwidth when the way is not longer than the one found
// first.
TEST(PathsTest, TheOldRuleGoesByHopsAndBandwidthTheNewOneByType) {
  const auto linked = [](int rank, const std::string& busid, const std::string& peer) {
    const std::string number = std::to_string(rank);
    return pci(busid, "0x030200",
               "<gpu dev=\"" + number + "\" sm=\"70\" rank=\"" + number + "\" gdr=\"1\">\n<nvlink target=\"" +
                   peer + "\" count=\"1\" tclass=\"0x030200\"/>\n</gpu>\n");
  };
  const std::string xml =
      systemOf(cpu(0, pciSwitch("0000:10:00.0", linked(0, "0000:11:00.0", "0000:12:00.0") +
                                                    linked(1, "0000:12:00.0", "0000:11:00.0") +
                                                    nic(0, "0000:13:00.0", "mlx5_0"))));
  Settings old{.nccl = NcclVersion::k2_28};
  for (const Settings& settings : {Settings{}, old})
    EXPECT_EQ(path(machineOf(xml, settings), NodeType::kGpu, 0, NodeType::kGpu, 1).type, PathType::kNvl);
}

TEST(PathsTest, ANvlinkDescribedOnOneSideOnlyIsRefused) {
  std::string xml = chain();
  const std::string back = "<nvlink target=\"0000:02:00.0\" count=\"1\" tclass=\"0x030200\"/>\n";
  xml.erase(xml.rfind(back), back.size());
  auto document = parseXml(xml, "test.xml");
  ASSERT_OK(document);
  const auto machine = makeMachine(std::move(*document), {}, "test");
  ASSERT_FALSE(machine.ok());
  EXPECT_HAS(machine.error(), "which has none back");
}

TEST(PathsTest, TheNetworkIsPreferredWhereItIsFaster) {
  // Without NVLink two GPUs of different sockets (22 GB/s) use their NICs (48 GB/s): two domains.
  const std::string xml = withoutNvlinks(twoSwitches());
  const Machine machine = machineOf(xml);
  EXPECT_TRUE(machine.paths->networkPreferred(0, 1));
  ASSERT_EQ(machine.domains.size(), 2U);
  EXPECT_EQ(machine.domains[1].ranks, std::vector<int>{1});
  EXPECT_EQ(machineOf(xml, {.net_disable_intra = 1}).domains.size(), 1U);
}

// Two hosts of an NVLink domain.
std::string twoHosts(const std::string& nics_of_second) {
  std::string two = cpu(0, gpu(1, "0000:01:00.0") + nics_of_second);
  two.insert(5, "host_hash=\"0x2\" ");
  return systemOf(cpu(0, gpu(0, "0000:01:00.0") + nic(0, "0000:02:00.0", "mlx5_0")) + two);
}

TEST(PathsTest, TheNicsOfAnotherHostAreDis) {
  const Machine machine = machineOf(twoHosts(nic(0, "0000:02:00.0", "mlx5_0")));
  EXPECT_EQ(path(machine, NodeType::kGpu, 0, NodeType::kNet, 0).type, PathType::kPhb);
  EXPECT_EQ(path(machine, NodeType::kGpu, 0, NodeType::kNet, 1).type, PathType::kDis);
  EXPECT_EQ(path(machine, NodeType::kGpu, 0, NodeType::kGpu, 1).type, PathType::kNvl);
}

TEST(PathsTest, AHostWithoutNicInAnNvlinkDomainCrashesNccl) {
  for (const NcclVersion version : {NcclVersion::k2_30, NcclVersion::k2_28}) {
    auto document = parseXml(twoHosts(""), "test.xml");
    ASSERT_OK(document);
    const auto machine = makeMachine(std::move(*document), {.nccl = version}, "test.xml");
    ASSERT_FALSE(machine.ok());
    EXPECT_HAS(machine.error(), "rank 1 (0000:01:00.0) reaches no NIC");
    EXPECT_HAS(machine.error(), "NCCL crashes");
  }
}

}  // namespace
}  // namespace railwise::topo::test
