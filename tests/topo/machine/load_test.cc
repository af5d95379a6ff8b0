// Files as people have them: complete, or with nothing but PCI devices.
#include <gtest/gtest.h>

#include "tests/ok.h"
#include "tests/topo/output_machines.h"
#include "topo/machine/machine.h"

namespace railwise::topo::test {
namespace {

Outcome<Machine> loadText(const std::string& xml, const Detection& detection = {},
                          const Settings& settings = {}) {
  auto document = parseXml(xml, "test.xml");
  EXPECT_OK(document);
  return loadDocument(std::move(*document), settings, detection, "test.xml");
}

// The NICs that NCCL_IB_HCA leaves, by host: "mlx5_0 0, mlx5_2 1".
std::string nicsWith(const std::string& ib_hca, const std::string& xml) {
  const auto machine = loadText(xml, {}, {.ib_hca = ib_hca});
  EXPECT_OK(machine);
  std::string nics;
  for (int i = 0; machine.ok() && i < machine->graph->count(NodeType::kNet); ++i) {
    const Node& net = machine->graph->of(NodeType::kNet, i);
    nics += (nics.empty() ? "" : ", ") + net.name + " " + std::to_string(net.dev);
  }
  return nics;
}

std::string bare(const std::string& busid, const std::string& pci_class) {
  return "<pci busid=\"" + busid + "\" class=\"" + pci_class +
         "\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/>\n";
}

std::string bareMachine() {
  return systemOf(cpu(
      0, pciSwitch("ffff:ff:01.0", bare("0002:00:00.0", "0x030200") + bare("0101:00:00.0", "0x020700")) +
             pciSwitch("ffff:ff:02.0", bare("0001:00:00.0", "0x030200") + bare("0102:00:00.0", "0x020700"))));
}

TEST(LoadTest, ACompleteFileIsTakenAsItIs) {
  const auto machine = loadText(twoSwitches());
  ASSERT_OK(machine);
  EXPECT_FALSE(machine->completed);
  EXPECT_TRUE(machine->remarks.empty());
}

TEST(LoadTest, BareDevicesAreNumberedInBusOrder) {
  Detection detection;
  detection.gpu_sm = 90;
  detection.nvswitch_links = 18;
  detection.nic_speed = 200000;
  const auto machine = loadText(bareMachine(), detection);
  ASSERT_OK(machine);
  EXPECT_TRUE(machine->completed);
  const Graph& graph = *machine->graph;
  ASSERT_EQ(graph.count(NodeType::kGpu), 2);
  const int first = graph.gpuOfRank(0);
  EXPECT_EQ(graph.of(NodeType::kGpu, first).busid, "0001:00:00.0");
  EXPECT_EQ(graph.of(NodeType::kGpu, first).sm, 90);
  EXPECT_EQ(graph.of(NodeType::kNet, 0).name, "mlx5_0");
  EXPECT_FLOAT_EQ(graph.of(NodeType::kNet, 0).bandwidth, 25);
  EXPECT_EQ(graph.of(NodeType::kNet, 0).guid, 0x1000U);
  EXPECT_EQ(graph.count(NodeType::kNvs), 1);
}

TEST(LoadTest, WhatWasAssumedIsSaid) {
  const auto machine = loadText(bareMachine());
  ASSERT_OK(machine);
  EXPECT_EQ(machine->remarks.size(), 3U);  // compute capability, NVLink, NICs
}

TEST(LoadTest, ACpuWithoutIdentityIsAssumed) {
  std::string xml = twoSwitches();
  const std::string vendor = " vendor=\"GenuineIntel\"";
  xml.erase(xml.find(vendor), vendor.size());
  const auto machine = loadText(xml);
  ASSERT_OK(machine);
  EXPECT_EQ(machine->remarks,
            std::vector<std::string>{"<cpu numaid=\"0\"> has no identity: Sapphire Rapids assumed"});
  EXPECT_EQ(machine->graph->of(NodeType::kCpu, 0).vendor, CpuVendor::kIntel);
}

// A file has its NICs in the order of the PCI tree, NCCL numbers them in its own.
TEST(LoadTest, NicsBehindOneThatIsLeftOutMoveUp) {
  const auto machine = [](const std::string& host, int gpu_rank) {
    std::string numbered = cpu(0, gpu(gpu_rank, "0000:11:00.0") + nic(2, "0000:12:00.0", "mlx5_2") +
                                      nic(0, "0000:13:00.0", "mlx5_0") + nic(1, "0000:14:00.0", "mlx5_1"));
    return numbered.insert(5, "host_hash=\"" + host + "\" ");
  };
  EXPECT_EQ(nicsWith("^=mlx5_1", systemOf(machine("0x1", 0))), "mlx5_2 1, mlx5_0 0");
  EXPECT_EQ(nicsWith("^=mlx5_0", systemOf(machine("0x1", 0) + machine("0x2", 1))),
            "mlx5_2 1, mlx5_1 0, mlx5_2 1, mlx5_1 0")
      << "each host has its own numbers";
}

TEST(LoadTest, NicsAreChosenByTheirPorts) {
  const auto with = [](const std::string& ib_hca, const std::string& net) {
    return nicsWith(ib_hca, systemOf(cpu(0, gpu(0, "0000:11:00.0") + net)));
  };
  const std::string fused =
      nic(0, "0000:12:00.0", "mlx5_0+mlx5_1") + nic(1, "0000:13:00.0", "mlx5_2+mlx5_2:2");
  EXPECT_EQ(with("=mlx5_0,mlx5_1", fused), "mlx5_0+mlx5_1 0");
  EXPECT_EQ(with("=mlx5_2:2", fused), "mlx5_2+mlx5_2:2 0") << "in part";
  const std::string net =
      "<net name=\"mlx5_1\" dev=\"1\" speed=\"400000\" port=\"2\" guid=\"0x1\" gdr=\"1\"/>\n";
  std::string two = nic(0, "0000:12:00.0", "mlx5_0");
  two.insert(two.find("</nic>"), net);
  EXPECT_EQ(with("=mlx5_1:1", two), "mlx5_1 0") << "the second port of the card is port 1 of its device";
  std::string sockets = nic(0, "0000:12:00.0", "eth0");
  sockets.replace(sockets.find("port=\"1\""), 8, "port=\"0\"");
  EXPECT_EQ(with("mlx5", sockets), "eth0 0") << "NCCL_IB_HCA is not for sockets";
}

TEST(LoadTest, AssumedNicsAreChosenByTheNamesThatTheyGet) {
  EXPECT_EQ(nicsWith("^=mlx5_0", bareMachine()), "mlx5_1 0");
}

TEST(LoadTest, NoPlaceOfANicThatIsLeftOutStays) {
  const auto machine = loadText(twoSwitches(), {}, {.ib_hca = "^=mlx5_1"});
  ASSERT_OK(machine);
  EXPECT_EQ(machine->xml->find("pci", "busid", "0000:22:00.0"), nullptr);
  EXPECT_NE(machine->xml->find("pci", "busid", "0000:20:00.0"), nullptr) << "a GPU is there";
}

TEST(LoadTest, NoGpuIsAnError) {
  const auto machine = loadText(systemOf(cpu(0, bare("0101:00:00.0", "0x020700"))));
  ASSERT_FALSE(machine.ok());
  EXPECT_HAS(machine.error(), "names no GPU");
}

TEST(LoadTest, AmdsAcceleratorsAreGpusInVersion2Only) {
  const std::string xml =
      systemOf(cpu(0, bare("0001:00:00.0", "0x120000") + bare("0101:00:00.0", "0x020700")));
  ASSERT_HAS(xml, "version=\"1\"");
  EXPECT_HAS(loadText(xml).error(), "names no GPU");
  const auto machine = loadText(replaced(xml, "version=\"1\"", "version=\"2\""));
  ASSERT_OK(machine);
  EXPECT_EQ(machine->graph->count(NodeType::kGpu), 1);
}

TEST(LoadTest, SocketDevicesDoNotMerge) {
  const std::string xml = systemOf(
      cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "eth0") + nic(1, "0000:12:00.1", "eth1")));
  Detection fuse;
  fuse.fuse_nics = true;
  EXPECT_EQ(loadText(xml, fuse)->graph->count(NodeType::kNet), 1);
  EXPECT_EQ(loadText(replaced(xml, "port=\"1\"", "port=\"0\""), fuse)->graph->count(NodeType::kNet), 2);
}

TEST(LoadTest, MoreThan256ElementsTogetherAreRefused) {
  std::string inner;
  char busid[32];
  for (int i = 0; i < 240; ++i) {
    std::snprintf(busid, sizeof busid, "%04x:00:00.0", i + 1);
    inner += bare(busid, i % 2 == 0 ? "0x030200" : "0x020700");
  }
  const auto machine = loadText(systemOf(cpu(0, inner)));
  ASSERT_FALSE(machine.ok());
  EXPECT_HAS(machine.error(), "256 XML elements");
}

}  // namespace
}  // namespace railwise::topo::test
