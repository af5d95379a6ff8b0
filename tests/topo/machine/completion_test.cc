// What NCCL adds to a file that says only part.

#include <gtest/gtest.h>

#include "tests/ok.h"
#include "tests/topo/output_machines.h"
#include "topo/machine/machine.h"

namespace railwise::topo::test {
namespace {

// Replaces the first occurrence.
std::string with(std::string xml, const std::string& what, const std::string& by) {
  const std::size_t at = xml.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  if (at != std::string::npos) xml.replace(at, what.size(), by);
  return xml;
}

Outcome<Machine> load(const std::string& xml, const Settings& settings = {},
                      const Detection& detection = {}) {
  return loadDocument(documentOf(xml), settings, detection, "test.xml");
}

TEST(Completion, IsNeededWhereTheFileLeavesOutWhatNcclAdds) {
  EXPECT_FALSE(needsCompletion(documentOf(twoSwitches())));
  struct Cut {
    const char* text;
    const char* left;
  };
  for (const Cut& cut :
       {Cut{" sm=\"90\"", ""}, Cut{" gdr=\"1\">", ">"}, Cut{" rank=\"0\"", ""}, Cut{"<gpu dev=\"0\"", "<gpu"},
        Cut{" tclass=\"0x068000\"", ""}, Cut{" name=\"mlx5_0\"", ""}, Cut{" dev=\"0\" speed", " speed"},
        Cut{" speed=\"400000\"", ""}, Cut{" port=\"1\"", ""}, Cut{" guid=\"0x0\"", ""},
        Cut{" gdr=\"1\"/>", "/>"}})
    EXPECT_TRUE(needsCompletion(documentOf(with(twoSwitches(), cut.text, cut.left)))) << cut.text;
}

TEST(Completion, IsNeededWhereNcclDoesNotFindAGpu) {
  EXPECT_TRUE(needsCompletion(documentOf(systemOf(cpu(0, gpu(0, "0000:1C:00.0"))))));
  EXPECT_FALSE(needsCompletion(
      documentOf(systemOf(cpu(0, gpu(0, "0000:1c:00.0") + nic(0, "0000:1D:00.0", "mlx5_0"))))));
}

TEST(Completion, IsNeededForARepeatedRankOfOneHost) {
  // As NCCL reads numbers.
  for (const char* zero : {"0", "Unknown", "0x0", "00", "0 ", "+0", "-0", "0.5", "4294967296"})
    EXPECT_TRUE(
        needsCompletion(documentOf(with(twoSwitches(), "rank=\"1\"", "rank=\"" + std::string(zero) + "\""))))
        << zero;
}

TEST(Completion, IsNeededWhereTheLinkOfAGpuOrASwitchIsLeftOut) {
  const std::string link = " link_speed=\"32.0 GT/s PCIe\"";
  EXPECT_TRUE(needsCompletion(documentOf(with(twoSwitches(), link, ""))));  // of the first switch
  const std::string xml = systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0")));
  EXPECT_TRUE(needsCompletion(documentOf(with(xml, link, ""))));
  const auto machine = load(with(xml, link, ""));
  ASSERT_OK(machine);
  EXPECT_FLOAT_EQ(machine->paths->get(NodeType::kGpu, 0, NodeType::kNet, 0).bandwidth, 12);
  EXPECT_EQ(machine->remarks,
            std::vector<std::string>{"the file leaves out PCIe links of GPUs or of switches, which "
                                     "the machine tells NCCL: Gen3 x16 assumed"});
}

TEST(Completion, EachRankAddsItsOwnGpu) {
  const std::string xml =
      with(with(twoSwitches(), " dev=\"1\" sm=\"90\" rank=\"1\" gdr=\"1\"", " rank=\"1\""),
           " tclass=\"0x068000\"", "");
  const auto machine = load(xml, {.nccl = NcclVersion::k2_30}, {.gpu_sm = 100});
  ASSERT_OK(machine);
  EXPECT_TRUE(machine->completed);
  const Graph& graph = *machine->graph;
  const Node& second = graph.of(NodeType::kGpu, graph.gpuOfRank(1));
  EXPECT_EQ(second.dev, 1);
  EXPECT_EQ(second.sm, 100);
  EXPECT_EQ(second.gdr, 1);
  EXPECT_EQ(graph.of(NodeType::kGpu, graph.gpuOfRank(0)).sm, 90) << "what the file says stays";
  EXPECT_EQ(graph.count(NodeType::kNvs), 1) << "an end that nobody sees is an NVSwitch";
}

TEST(Completion, ANetGetsWhatItLeavesOutFromThePlugin) {
  const std::string all = " dev=\"0\" speed=\"400000\" port=\"1\" guid=\"0x0\" gdr=\"1\"";
  const auto machine = load(with(twoSwitches(), all, ""), {}, {.nic_speed = 100000});
  ASSERT_OK(machine);
  const Graph& graph = *machine->graph;
  ASSERT_EQ(graph.count(NodeType::kNet), 2);
  const Node& net = graph.of(NodeType::kNet, 0);
  EXPECT_EQ(net.name, "mlx5_0");
  EXPECT_EQ(net.dev, 0);
  EXPECT_FLOAT_EQ(net.bandwidth, 12.5);
  EXPECT_EQ(net.port, 1);
  EXPECT_EQ(net.guid, 0x1000U);
  EXPECT_EQ(net.gdr, 1);
  EXPECT_EQ(net.max_comms, 131072);
  EXPECT_EQ(machine->paths->get(NodeType::kGpu, 0, NodeType::kNet, 0).type, PathType::kPix);
}

TEST(Completion, TheCompletedFileSaysAllAndReadsTheSame) {
  const auto machine = load(with(with(twoSwitches(), " speed=\"400000\"", ""), " gdr=\"1\">", ">"));
  ASSERT_OK(machine);
  const std::string written = writeXml(*machine->xml);
  EXPECT_EQ(countOf(written, "speed=\"400000\""), 2);
  EXPECT_EQ(countOf(written, "keep="), 0);
  const XmlDocument again = documentOf(written);
  EXPECT_FALSE(needsCompletion(again));
  const auto same = load(written);
  ASSERT_OK(same);
  EXPECT_TRUE(same->remarks.empty());
  for (int net = 0; net < 2; ++net) {
    const Path& before = machine->paths->get(NodeType::kGpu, 0, NodeType::kNet, net);
    const Path& after = same->paths->get(NodeType::kGpu, 0, NodeType::kNet, net);
    EXPECT_EQ(before.type, after.type);
    EXPECT_EQ(before.bandwidth, after.bandwidth);
    EXPECT_EQ(before.hops, after.hops);
  }
}

TEST(Completion, PortsOfANicWithoutMoreThanNamesMerge) {
  const std::string ports =
      pci("0000:12:00.0", "0x020700", "<nic>\n<net name=\"a\"/>\n<net name=\"b\"/>\n</nic>\n");
  const std::string xml = systemOf(cpu(0, gpu(0, "0000:11:00.0") + ports));
  const auto merged = load(xml);
  ASSERT_OK(merged);
  ASSERT_EQ(merged->graph->count(NodeType::kNet), 1);
  EXPECT_EQ(merged->graph->of(NodeType::kNet, 0).name, "a+b");
  EXPECT_FLOAT_EQ(merged->graph->of(NodeType::kNet, 0).bandwidth, 100);
  EXPECT_EQ(load(xml, {.net_merge_level = PathType::kLoc})->graph->count(NodeType::kNet), 2);
}

TEST(Completion, AGpuUnderAnAddressWithCapitalsIsAddedAgain) {
  const std::string linked =
      pci("0000:1A:00.0", "0x030200",
          "<gpu dev=\"1\" sm=\"90\" rank=\"1\" gdr=\"1\">\n<nvlink target=\"0000:1B:00.0\" "
          "count=\"2\" tclass=\"0x030200\"/>\n</gpu>\n");
  const std::string peer =
      pci("0000:1B:00.0", "0x030200",
          "<gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\">\n<nvlink target=\"0000:1A:00.0\" "
          "count=\"2\" tclass=\"0x030200\"/>\n</gpu>\n");
  const auto machine =
      load(systemOf(cpu(0, pciSwitch("0000:10:00.0", linked + peer + nic(0, "0000:12:00.0", "mlx5_0")))));
  ASSERT_OK(machine);
  const Graph& graph = *machine->graph;
  ASSERT_EQ(graph.count(NodeType::kGpu), 2);
  EXPECT_EQ(graph.of(NodeType::kGpu, graph.gpuOfRank(1)).busid, "0000:1a:00.0");
  EXPECT_EQ(graph.of(NodeType::kGpu, graph.gpuOfRank(1)).sm, 90) << "the driver knows it";
  EXPECT_EQ(graph.count(NodeType::kCpu), 2);
  EXPECT_EQ(graph.of(NodeType::kCpu, 1).numa, -1);
  EXPECT_EQ(machine->paths->get(NodeType::kGpu, 0, NodeType::kGpu, 1).type, PathType::kNvl);
  EXPECT_EQ(machine->paths->get(NodeType::kNet, 0, NodeType::kGpu, 0).type, PathType::kSys);
  ASSERT_EQ(machine->remarks.size(), 2U);
  EXPECT_HAS(machine->remarks[0], "writes 0000:1b:00.0 with capitals: NCCL does not find this GPU");
}

TEST(Completion, ALinkWithoutClassHasThatOfItsTarget) {
  const auto linked = [](int rank, const std::string& busid, const std::string& target) {
    const std::string number = std::to_string(rank);
    return pci(busid, "0x030200",
               "<gpu dev=\"" + number + "\" sm=\"90\" rank=\"" + number + "\" gdr=\"1\">\n<nvlink target=\"" +
                   target + "\" count=\"4\"/>\n</gpu>\n");
  };
  const std::string xml =
      systemOf(cpu(0, linked(0, "0000:11:00.0", "0000:12:00.0") + linked(1, "0000:12:00.0", "0000:11:00.0")));
  EXPECT_FALSE(load(xml, {.nccl = NcclVersion::k2_31}).ok()) << "NCCL 2.31 refuses it";
  const auto machine = load(xml, {.nccl = NcclVersion::k2_30});
  ASSERT_OK(machine);
  EXPECT_EQ(machine->graph->count(NodeType::kNvs), 0);
  EXPECT_FLOAT_EQ(machine->paths->get(NodeType::kGpu, 0, NodeType::kGpu, 1).bandwidth, 4 * 20.6F);
}

TEST(Completion, AGpuThatNoRankUsesIsDropped) {
  const auto machine = load(with(twoSwitches(), " rank=\"1\"", ""));
  ASSERT_OK(machine);
  EXPECT_EQ(machine->graph->count(NodeType::kGpu), 1);
  EXPECT_EQ(machine->graph->count(NodeType::kNet), 2);
}

TEST(Completion, SeveralHostsBecomeOneMachineAndThatIsSaid) {
  const std::string two = with(twoSwitches(), "numaid=\"1\"", "numaid=\"1\" host_hash=\"0x2\"");
  const auto machine = load(with(two, " speed=\"400000\"", ""));
  ASSERT_OK(machine);
  EXPECT_EQ(machine->graph->hosts(), 1);
  ASSERT_EQ(machine->remarks.size(), 2U);
  EXPECT_EQ(machine->remarks[1],
            "the file has 2 hosts (host_hash): NCCL takes a topology file for one machine");
}

TEST(Completion, ARankOnTwoHostsOfADomainIsRefused) {
  const std::string two = with(twoSwitches(), "numaid=\"1\"", "numaid=\"1\" host_hash=\"0x2\"");
  for (const char* zero : {" rank=\"0\"", " rank=\"0x0\""}) {
    const auto machine = load(with(two, " rank=\"1\"", zero));
    ASSERT_FALSE(machine.ok()) << zero;
    EXPECT_HAS(machine.error(), "test.xml:19:1: rank 0 is in line 5 already");
    EXPECT_HAS(machine.error(), "give each GPU its own rank");
  }
}

}  // namespace
}  // namespace railwise::topo::test
