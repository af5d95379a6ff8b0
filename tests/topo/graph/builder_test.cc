// XML -> graph: NCCL's numbers, NCCL's order, NCCL's refusals.
#include <gtest/gtest.h>

#include "base/pci.h"
#include "tests/ok.h"
#include "tests/topo/output_machines.h"
#include "topo/graph/constants.h"
#include "topo/graph/graph.h"

namespace railwise::topo::test {
namespace {

Outcome<Graph> graphOf(const std::string& xml, const Settings& settings = {}) {
  auto document = parseXml(xml, "test.xml");
  EXPECT_OK(document);
  return buildGraph(*document, settings);
}

// The link from one node to the other, by label; bandwidth -1 when there is none.
Link linkOf(const Graph& graph, const std::string& from, const std::string& to) {
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.label(static_cast<NodeIndex>(i)) != from) continue;
    for (const Link& link : graph.nodes()[i].links)
      if (graph.label(link.to) == to) return link;
  }
  return {LinkType::kLoc, -1, kNoNode};
}

std::string errorOf(const std::string& xml) {
  const auto graph = graphOf(xml);
  return graph.ok() ? "" : graph.error();
}

std::string nvlinkTo(const std::string& target, int count, const std::string& tclass = "0x030200") {
  return "<nvlink target=\"" + target + "\" count=\"" + std::to_string(count) + "\" tclass=\"" + tclass +
         "\"/>\n";
}

TEST(GraphBuilderTest, EveryTypeIsThereWithItsLinks) {
  const auto graph = graphOf(twoSwitches());
  ASSERT_OK(graph);
  EXPECT_EQ(graph->count(NodeType::kGpu), 2);
  EXPECT_EQ(graph->count(NodeType::kDev), 2);
  EXPECT_EQ(graph->count(NodeType::kPci), 2);
  EXPECT_EQ(graph->count(NodeType::kCpu), 2);
  EXPECT_EQ(graph->count(NodeType::kNic), 2);
  EXPECT_EQ(graph->count(NodeType::kNet), 2);
  EXPECT_EQ(graph->count(NodeType::kNvs), 1);
  EXPECT_FLOAT_EQ(linkOf(*graph, "GPU/0", "DEV/0000:11:00.0").bandwidth, 5000);
  EXPECT_FLOAT_EQ(linkOf(*graph, "DEV/0000:11:00.0", "PCI/0000:10:00.0").bandwidth, 48);
  EXPECT_FLOAT_EQ(linkOf(*graph, "DEV/0000:11:00.0", "NVS/0").bandwidth, 18 * 20.6F);
  EXPECT_FLOAT_EQ(linkOf(*graph, "NIC/0000:12:00.0", "NET/0").bandwidth, 50);
  EXPECT_FLOAT_EQ(linkOf(*graph, "CPU/0", "CPU/1").bandwidth, 22);
}

TEST(GraphBuilderTest, WithoutDeviceNodesIn228) {
  const auto graph = graphOf(twoSwitches(), {.nccl = NcclVersion::k2_28});
  ASSERT_OK(graph);
  EXPECT_EQ(graph->count(NodeType::kDev), 0);
  EXPECT_FLOAT_EQ(linkOf(*graph, "GPU/0", "PCI/0000:10:00.0").bandwidth, 48);
}

TEST(GraphBuilderTest, TheWayUpIsTheLastLinkOfASwitch) {
  const auto graph = graphOf(twoSwitches());
  ASSERT_OK(graph);
  for (const NodeIndex sw : graph->of(NodeType::kPci))
    EXPECT_EQ(graph->node(graph->node(sw).links.back().to).type, NodeType::kCpu);
}

TEST(GraphBuilderTest, LinkSpeedsByPrefix) {
  EXPECT_FLOAT_EQ(pciBandwidth("2.5 GT/s PCIe", 16), 3);
  EXPECT_FLOAT_EQ(pciBandwidth("8 GT/s", 16), 12);
  EXPECT_FLOAT_EQ(pciBandwidth("16 GT/s", 16), 24);
  EXPECT_FLOAT_EQ(pciBandwidth("32.0 GT/s PCIe", 8), 24);
  EXPECT_FLOAT_EQ(pciBandwidth("64.0 GT/s PCIe", 16), 96);
  EXPECT_FLOAT_EQ(pciBandwidth("16.0 GT/s", 16), 12);  // no " PCIe": Gen3
  EXPECT_FLOAT_EQ(pciBandwidth("Unknown", 0), 12);
  EXPECT_FALSE(pciSpeedKnown("16.0 GT/s"));
  EXPECT_TRUE(pciSpeedKnown("32 GT/s PCIe/s"));
}

TEST(GraphBuilderTest, NvlinkBandwidthByComputeCapability) {
  const auto bandwidth = [](int sm, int release = NcclVersion::kNewest.code) {
    return nvlinkBandwidth(sm, NcclVersion{release});
  };
  EXPECT_FLOAT_EQ(bandwidth(60), 18);
  EXPECT_FLOAT_EQ(bandwidth(70), 20);
  EXPECT_FLOAT_EQ(bandwidth(80), 20);
  EXPECT_FLOAT_EQ(bandwidth(86), 12);
  EXPECT_FLOAT_EQ(bandwidth(89), 20);
  EXPECT_FLOAT_EQ(bandwidth(90), 20.6F);
  EXPECT_FLOAT_EQ(bandwidth(100), 40.1F);
  EXPECT_FLOAT_EQ(bandwidth(80, 21701), 22);
  EXPECT_FLOAT_EQ(bandwidth(90, 21904), 20);
  EXPECT_FLOAT_EQ(bandwidth(100, 22403), 20.6F);
  EXPECT_FLOAT_EQ(bandwidth(100, 22703), 40);
}

float betweenCpus(CpuArch arch, CpuVendor vendor, int family, int model, NcclVersion release) {
  Node cpu;
  cpu.arch = arch;
  cpu.vendor = vendor;
  cpu.model = cpuModel(vendor, family, model, release);
  return interCpuBandwidth(cpu, release);
}

TEST(GraphBuilderTest, SocketsOfEveryCpu) {
  const auto between = [](CpuArch arch, CpuVendor vendor, int family, int model) {
    return betweenCpus(arch, vendor, family, model, NcclVersion::kNewest);
  };
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kIntel, 6, 0x54), 6);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kIntel, 6, 0x55), 10);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kIntel, 6, 0x8f), 22);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kIntel, 6, 0xac), 22);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kIntel, 6, 0xad), 40);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kIntel, 6, 0xaf), 40);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kIntel, 6, 0xb0), 22);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kIntel, 6, 0xcf), 40);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kIntel, 7, 0xcf), 6);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kAmd, 143, 1), 16);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kAmd, 23, 1), 16);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kAmd, 25, 1), 24);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kAmd, 175, 1), 24);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kAmd, 26, 1), 32);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kAmd, 191, 1), 32);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kZhaoxin, 7, 0x5b), 9);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kZhaoxin, 7, 0x3b), 6);
  EXPECT_FLOAT_EQ(between(CpuArch::kX86, CpuVendor::kUnknown, 0, 0), 5000);
  EXPECT_FLOAT_EQ(between(CpuArch::kArm, CpuVendor::kUndefined, 0, 0), 6);
  EXPECT_FLOAT_EQ(between(CpuArch::kPower, CpuVendor::kUndefined, 0, 0), 32);
}

TEST(GraphBuilderTest, SocketsByRelease) {
  const auto intel = [](int model, int release) {
    return betweenCpus(CpuArch::kX86, CpuVendor::kIntel, 6, model, NcclVersion{release});
  };
  const auto zen4 = [](int release) {
    Node cpu;
    cpu.arch = CpuArch::kX86;
    cpu.vendor = CpuVendor::kAmd;
    return interCpuBandwidth(cpu, NcclVersion{release});
  };
  EXPECT_FLOAT_EQ(intel(0xad, 23007), 22);
  EXPECT_FLOAT_EQ(intel(0xcf, 22501), 10);
  EXPECT_FLOAT_EQ(intel(0x55, 21701), 9);
  EXPECT_FLOAT_EQ(zen4(23007), 16);
  EXPECT_FLOAT_EQ(zen4(21806), 5000);
  EXPECT_FLOAT_EQ(zen4(21602), 16);
}

// Since 2.31 the generation of an AMD processor decides, so the graph needs its family.
TEST(GraphBuilderTest, AnAmdCpuNeedsItsFamilySince231) {
  const std::string text = systemOf(
      R"(<cpu numaid="0" arch="x86_64" vendor="AuthenticAMD"><pci busid="0000:01:00.0" class="0x030000" )"
      R"(link_speed="" link_width="16"><gpu dev="0" sm="80" rank="0" gdr="1"/></pci></cpu>)");
  Settings settings{.nccl = NcclVersion::k2_30};
  EXPECT_OK(graphOf(text, settings));
  settings.nccl = NcclVersion::k2_31;
  const auto graph = graphOf(text, settings);
  ASSERT_FALSE(graph.ok());
  EXPECT_HAS(graph.error(), "<cpu> has no familyid");
}

TEST(GraphBuilderTest, HalvesOfANetAreDevicesOfTheirOwnSince229) {
  const std::string text =
      systemOf(cpu(0, R"(<pci busid="0000:01:00.0" class="0x020000" link_speed="" link_width="16"><nic>)"
                      R"(<net name="mlx5_0" dev="0" net="0" gin="1"/></nic></pci>)"));
  Settings settings{.nccl = NcclVersion{22903}};
  auto graph = graphOf(text, settings);
  ASSERT_OK(graph);
  EXPECT_EQ(graph->count(NodeType::kNet), 1);
  settings.nccl = NcclVersion{22907};
  graph = graphOf(text, settings);
  ASSERT_OK(graph);
  EXPECT_EQ(graph->count(NodeType::kNet), 0);
  EXPECT_EQ(graph->count(NodeType::kGin), 1);
}

TEST(GraphBuilderTest, NvlinksToOnePeerAddUpAndAbsentTargetsAreDropped) {
  const auto graph = graphOf(systemOf(cpu(
      0, gpuWith(0, "0000:01:00.0",
                 nvlinkTo("0000:02:00.0", 2) + nvlinkTo("0000:02:00.0", 1) + nvlinkTo("0000:09:00.0", 4)) +
             gpuWith(1, "0000:02:00.0", nvlinkTo("0000:01:00.0", 3)))));
  ASSERT_OK(graph);
  EXPECT_FLOAT_EQ(linkOf(*graph, "DEV/0000:01:00.0", "DEV/0000:02:00.0").bandwidth, 3 * 20.6F);
  EXPECT_EQ(graph->of(NodeType::kDev, 0).links.size(), 3U);  // NVLink, its GPU, the CPU
}

TEST(GraphBuilderTest, AmdsXgmi) {
  const auto amd = [](const std::string& gcn) {
    const std::string text = systemOf(
        cpu(0, gpuWith(0, "0000:01:00.0", "<xgmi target=\"0000:02:00.0\" count=\"1\" tclass=\"0x120000\"/>\n",
                       304, " gcn=\"" + gcn + "\"") +
                   gpuWith(1, "0000:02:00.0", "", 304, " gcn=\"" + gcn + "\"")));
    return replaced(replaced(text, "version=\"1\"", "version=\"2\""), "0x030200", "0x120000");
  };
  const auto bandwidth = [&](const std::string& gcn, bool as_nvlink) {
    const auto graph = graphOf(amd(gcn), {.xgmi_as_nvlink = as_nvlink});
    EXPECT_OK(graph);
    return graph.ok() ? linkOf(*graph, "DEV/0000:01:00.0", "DEV/0000:02:00.0").bandwidth : -1;
  };
  EXPECT_FLOAT_EQ(bandwidth("gfx942", false), 48);
  EXPECT_FLOAT_EQ(bandwidth("gfx950", false), 48);
  EXPECT_FLOAT_EQ(bandwidth("910", false), 36);
  EXPECT_FLOAT_EQ(bandwidth("906", false), 24);
  EXPECT_FLOAT_EQ(bandwidth("gfx942", true), 40.1F);
}

TEST(GraphBuilderTest, ANicDropsItsPciChildren) {
  const auto graph = graphOf(
      systemOf(cpu(0, gpu(0, "0000:01:00.0") +
                          pci("0000:02:00.0", "0x060000",
                              "<nic>\n<net name=\"mlx5_0\" dev=\"0\"/>\n</nic>\n" +
                                  pci("0000:03:00.0", "0x060400", nic(1, "0000:04:00.0", "mlx5_1"))))));
  ASSERT_OK(graph);
  EXPECT_EQ(graph->count(NodeType::kNet), 1);
  EXPECT_FLOAT_EQ(graph->of(NodeType::kNet, 0).bandwidth, 1.25F);  // no speed: 10 Gb/s
  EXPECT_EQ(graph->count(NodeType::kPci), 0);
}

TEST(GraphBuilderTest, GpusBelowADroppedSwitchAreRefused) {
  const std::string error = errorOf(
      systemOf(cpu(0, pci("0000:02:00.0", "0x060000",
                          "<nic>\n<net name=\"mlx5_0\" dev=\"0\"/>\n</nic>\n" + gpu(0, "0000:01:00.0")))));
  EXPECT_TRUE(error.starts_with("test.xml:8:")) << error;
  EXPECT_HAS(error, "0000:01:00.0");
}

TEST(GraphBuilderTest, RefusalsNameTheLineAndTheAttribute) {
  EXPECT_EQ(errorOf("<system version=\"1\">\n<cpu affinity=\"f\" arch=\"arm64\">\n</cpu>\n</system>\n"),
            "test.xml:2:1: <cpu> has no numaid; NCCL fails its init without it: add numaid=\"...\"");
  EXPECT_EQ(
      errorOf("<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"f\">\n</cpu>\n</system>\n"),
      "test.xml:2:1: <cpu> has no arch; NCCL takes it from the machine that it runs on, and a file alone "
      "needs it: add arch=\"...\"");
  EXPECT_HAS(errorOf("<system version=\"1\">\n</system>\n"), "no <cpu>");
  EXPECT_HAS(
      errorOf(systemOf(cpu(0, "<pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"\">\n</pci>\n"))),
      "<pci busid=\"0000:01:00.0\"> has no link_width");
  EXPECT_HAS(errorOf(systemOf(cpu(0, gpuWith(0, "0000:01:00.1", "")))), "last two bits");
}

TEST(GraphBuilderTest, AmdsClassIsASwitchInVersion1) {
  EXPECT_NE(errorOf(systemOf(cpu(
                0, pci("0000:01:00.0", "0x120000", "<gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"/>\n")))),
            "");
}

TEST(GraphBuilderTest, SplitGpusShareNvlinkAndC2c) {
  const std::string links =
      nvlinkTo("fffffff:ffff:ff", 18, "0x068000") + "<c2c bw=\"44712\" count=\"10\"/>\n";
  const auto part = [&](int rank, int mlopart) {
    return "<gpu dev=\"0\" sm=\"100\" rank=\"" + std::to_string(rank) + "\" gdr=\"1\" mlopart=\"" +
           std::to_string(mlopart) + "\">\n" + links + "</gpu>\n";
  };
  const auto graph = graphOf(systemOf(cpu(0, pci("0000:01:00.0", "0x030200", part(0, 0) + part(1, 1)))));
  ASSERT_OK(graph);
  EXPECT_EQ(graph->count(NodeType::kDev), 2);
  EXPECT_EQ(graph->count(NodeType::kCxb), 1);
  const Node& first = graph->of(NodeType::kDev, 0);
  const auto to = [&](NodeType type) {
    for (const Link& link : first.links)
      if (graph->node(link.to).type == type) return link.bandwidth;
    return -1.0F;
  };
  EXPECT_FLOAT_EQ(to(NodeType::kNvs), 18 * 40.1F / 2);
  EXPECT_FLOAT_EQ(to(NodeType::kCxb), 447.12F);
  EXPECT_FLOAT_EQ(to(NodeType::kDev), 2618);
}

std::string broadcom(const std::string& busid, const std::string& subsystem_device, const std::string& inner,
                     const std::string& speed = "32.0 GT/s PCIe") {
  return "<pci busid=\"" + busid +
         "\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc030\" subsystem_vendor=\"0x1000\" "
         "subsystem_device=\"" +
         subsystem_device + "\" link_speed=\"" + speed + "\" link_width=\"16\">\n" + inner + "</pci>\n";
}

TEST(GraphBuilderTest, BroadcomsTwoLevelsBecomeOne) {
  const auto graph = graphOf(
      systemOf(cpu(0, broadcom("0000:10:00.0", "0x0000",
                               broadcom("0000:11:00.0", "0x1000", gpu(0, "0000:12:00.0")) +
                                   broadcom("0000:13:00.0", "0x1000", nic(0, "0000:14:00.0", "mlx5_0"))))));
  ASSERT_OK(graph);
  ASSERT_EQ(graph->count(NodeType::kPci), 1);
  EXPECT_FLOAT_EQ(linkOf(*graph, "PCI/0000:10:00.0", "DEV/0000:12:00.0").bandwidth, 48);
  EXPECT_FLOAT_EQ(linkOf(*graph, "NIC/0000:14:00.0", "PCI/0000:10:00.0").bandwidth, 48);
}

// Found by comparing random machines with NCCL's own code: where the inner switch without devices has the
// last link, it loses the way up behind the end of its array.
TEST(GraphBuilderTest, AnEmptyInnerBroadcomSwitchBreaksNcclsInit) {
  const auto machine = [](const std::string& speed) {
    const std::string inside =
        pci("0000:12:00.0", "0x030200", "<gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"/>\n", speed) +
        broadcom("0000:13:00.0", "0x1000", "", speed);
    auto document = parseXml(systemOf(cpu(0, broadcom("0000:10:00.0", "0x0000", inside))), "test.xml");
    EXPECT_OK(document);
    return makeMachine(std::move(*document), {}, "test").ok();
  };
  EXPECT_FALSE(machine("8.0 GT/s PCIe"));
  EXPECT_TRUE(machine("32.0 GT/s PCIe"));
}

// What NCCL leaves behind the links of a switch lies in its node, and moves with it when a node before it is
// removed: here the inner switch that the outer one is below. One of these links takes the place of the way
// up.
TEST(GraphBuilderTest, WhatNcclLeavesBehindTheLinksMovesWithTheSwitch) {
  const std::string inside = gpu(0, "0000:12:00.0") + broadcom("0000:13:00.0", "0x1000", "");
  const auto graph = graphOf(
      systemOf(cpu(0, broadcom("0000:10:00.0", "0x1000", broadcom("0000:11:00.0", "0x0000", inside)))));
  ASSERT_OK(graph);
  EXPECT_FLOAT_EQ(linkOf(*graph, "CPU/0", "PCI/0000:11:00.0").bandwidth, 48);
  EXPECT_EQ(linkOf(*graph, "PCI/0000:11:00.0", "CPU/0").to, kNoNode);
}

TEST(GraphBuilderTest, TwoHostsAreToldApartByTheirHash) {
  std::string one = cpu(0, gpu(0, "0000:01:00.0"));
  std::string two = cpu(0, gpu(1, "0000:01:00.0"));
  one.insert(5, "host_hash=\"0x1\" ");
  two.insert(5, "host_hash=\"0x2\" ");
  const auto graph = graphOf(systemOf(one + two));
  ASSERT_OK(graph);
  EXPECT_EQ(graph->hosts(), 2);
  EXPECT_EQ(graph->label(graph->of(NodeType::kCpu)[1]), "CPU/1-0");
  EXPECT_FLOAT_EQ(linkOf(*graph, "CPU/0", "CPU/1-0").bandwidth, -1);
}

TEST(GraphBuilderTest, CpuListOfNcclsMask) {
  EXPECT_EQ(cpuList("00000000,0000ffff,ffffffff"), "0-47");
  EXPECT_EQ(cpuList("ffffffff,ffff0000,00000000"), "48-95");
  EXPECT_EQ(cpuList("5"), "0,2");
  EXPECT_EQ(cpuList("0-63"), "");  // reads as 0
  EXPECT_EQ(cpuList(""), "");
}

TEST(GraphBuilderTest, PciAddresses) {
  EXPECT_EQ(busIdToNumber("0000:3b:00.1"), 0x3b001);
  EXPECT_EQ(busIdText(0x3b001), "0000:3b:00.1");
  EXPECT_EQ(busIdText(busIdToNumber("000A:00:1f.0")), "000a:00:1f.0");
  EXPECT_EQ(busIdToNumber("fffffff:ffff:ff"), 0xfffffffffffff);
  EXPECT_TRUE(isBusId("0000:3b:00.1"));
  EXPECT_FALSE(isBusId("0000:3b:00"));
  EXPECT_FALSE(isBusId("pci0000:3b.1"));
}

}  // namespace
}  // namespace railwise::topo::test
