#include "topo/search/search.h"

#include <array>

#include "tests/ok.h"
#include "tests/topo/load_file.h"
#include "tests/topo/search/search_machines.h"
#include "topo/machine/machine.h"

namespace railwise::topo {
namespace {

using namespace test;

TEST(SearchGraphs, AloneWithoutTheNetwork) {
  const Machine machine = machineOf(twoSwitches());
  const CommunicatorGraphs graphs = searched(machine, {});
  EXPECT_FALSE(graphs.inter);
  EXPECT_FLOAT_EQ(graphs.total_bandwidth, 370.8F);
  for (const Channel& channel : graphs.of(Algorithm::kRing).channels) {
    EXPECT_EQ(channel.net_in, -1);
    EXPECT_EQ(channel.ranks.size(), 2U);
  }
}

TEST(SearchGraphs, WithASecondHostOverTheNics) {
  const Machine machine = machineOf(twoSwitches());
  const CommunicatorGraphs graphs = searched(machine, {.nodes = 2});
  EXPECT_TRUE(graphs.inter);
  EXPECT_EQ(graphs.max_bandwidth, 48);
  const ChannelGraph& ring = graphs.of(Algorithm::kRing);
  ASSERT_FALSE(ring.channels.empty());
  for (const Channel& channel : ring.channels) EXPECT_GE(channel.net_in, 0);
  EXPECT_EQ(graphs.of(Algorithm::kTree).channels.size(), ring.channels.size());
}

TEST(SearchGraphs, HeadsHaveOneRank) {
  const CommunicatorGraphs graphs = searched(machineOf(twoSwitches()), {.nodes = 2});
  for (const Algorithm algorithm : {Algorithm::kNvls, Algorithm::kCollNetDirect})
    for (const Channel& channel : graphs.of(algorithm).channels) EXPECT_EQ(channel.ranks.size(), 1U);
}

TEST(SearchGraphs, CollnetAsIfEachNicHadAPlugin) {
  const Machine machine = machineOf(twoSwitches());
  EXPECT_FALSE(searched(machine, {.nodes = 2}).of(Algorithm::kCollNetChain).channels.empty());
}

TEST(SearchGraphs, OldVersionsTryTheirOwnSpeeds) {
  const std::string xml = replaced(twoSwitches(), "sm=\"90\"", "sm=\"100\"");
  SearchTrace trace;
  searched(machineOf(xml, {.nccl = NcclVersion::k2_28}), {.nodes = 1, .trace = &trace});
  for (const GraphTrace& graph : trace.graphs)
    for (const SearchAttempt& attempt : graph.attempts) EXPECT_NE(attempt.limits.bandwidth_intra, 45);
}

TEST(SearchGraphs, OneGpuIsARingOfItsOwn) {
  const Machine machine = machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "a"))));
  const CommunicatorGraphs graphs = searched(machine, {});
  EXPECT_FALSE(graphs.of(Algorithm::kRing).channels.empty());
  EXPECT_EQ(graphs.of(Algorithm::kTree).pattern, Pattern::kTree);
}

// Four GPUs of sm 90 on NVSwitches; of the last one the NVLinks are not there.
std::string oneWithoutNvlink() {
  std::string devices;
  for (int i = 0; i < 4; ++i) devices += gpu(i, "0000:1" + std::to_string(i) + ":00.0");
  devices += nic(0, "0000:20:00.0", "mlx5_0");
  const std::size_t link = devices.rfind("<nvlink");
  devices.erase(link, devices.find('>', link) + 1 - link);
  return systemOf(cpu(0, devices));
}

TEST(SearchGraphs, From231AGpuWithoutAPathToTheNvswitchesFailsTheInit) {
  for (const int nodes : {1, 2}) {
    const Machine machine = machineOf(oneWithoutNvlink(), Settings{.nccl = NcclVersion::k2_31});
    const auto found = searchGraphs(machine.domains[0], *machine.settings, {.nodes = nodes});
    ASSERT_FALSE(found.ok()) << nodes;
    const auto [text, fix] = splitAdvice(found.error());
    EXPECT_HAS(text, "GPU 3 (0000:13:00.0) has no NVLink");
    EXPECT_HAS(text, "NCCL 2.31.2 fails its init");
    EXPECT_TRUE(fix.starts_with("set NCCL_NVLS_ENABLE=0")) << fix;
    const Machine older = machineOf(oneWithoutNvlink(), Settings{.nccl = NcclVersion::k2_30});
    EXPECT_TRUE(searched(older, {.nodes = nodes}).of(Algorithm::kNvls).channels.empty());
  }
}

TEST(SearchGraphs, WithoutNvlsItsSearchCannotFail) {
  Settings settings{.nccl = NcclVersion::k2_31};
  EXPECT_OK(searchGraphs(machineOf(oneWithoutNvlink(), settings).domains[0], settings, {.nvls = false}));
  settings.nvls_enable = 0;
  const Machine machine = machineOf(oneWithoutNvlink(), settings);
  const CommunicatorGraphs graphs = searched(machine, {});
  EXPECT_FALSE(graphs.of(Algorithm::kRing).channels.empty());
  EXPECT_TRUE(graphs.of(Algorithm::kNvls).channels.empty());
}

TEST(SearchGraphs, BeforeTwoTwentyFiveThereAreHalfAsManyChannels) {
  const std::string one = systemOf(cpu(0, gpuWith(0, "0000:11:00.0", "", 75)));
  const auto rings = [&](int code) {
    const CommunicatorGraphs graphs = searched(machineOf(one, Settings{.nccl = NcclVersion{code}}), {});
    return std::pair(graphs.of(Algorithm::kRing).channels.size(), graphs.total_bandwidth);
  };
  EXPECT_EQ(rings(22501), std::pair(std::size_t{32}, 5000.0F));
  EXPECT_EQ(rings(22403), std::pair(std::size_t{16}, 5000.0F));
  EXPECT_EQ(rings(22105), std::pair(std::size_t{16}, 5000.0F));
  EXPECT_EQ(rings(22005), std::pair(std::size_t{16}, 0.0F)) << "a published log: nChannels 16, totalBw 0.0";
}

// With keep="1" on the GPUs the documents of two ranks do not become one, and NCCL has each GPU twice.
TEST(SearchMachine, GpusThatAreThereTwiceTakeTheNetwork) {
  std::string xml = twoSwitches();
  const auto graphs = [&xml] {
    auto document = parseXml(xml, "test.xml");
    EXPECT_OK(document);
    auto machine = loadDocument(std::move(*document), Settings(), {}, "test.xml");
    EXPECT_OK(machine);
    const auto found = searchMachine(*machine, {.two_hosts = false});
    EXPECT_OK(found);
    return std::pair(machine->domains[0].ranks.size(), found->front().one_host->inter);
  };
  xml = replaced(xml, " port=\"1\"", "");  // so that the file is completed
  EXPECT_EQ(graphs(), std::pair(std::size_t{2}, false));
  xml = replaced(xml, "<gpu ", "<gpu keep=\"1\" ");
  EXPECT_EQ(graphs(), std::pair(std::size_t{4}, true));
}

TEST(SearchGraphs, AreTheSameEachTime) {
  const Machine machine = machineOf(equallyNear());
  const auto first = searched(machine, {.nodes = 2}).of(Algorithm::kRing);
  const auto second = searched(machine, {.nodes = 2}).of(Algorithm::kRing);
  ASSERT_EQ(first.channels.size(), second.channels.size());
  for (std::size_t c = 0; c < first.channels.size(); ++c)
    EXPECT_EQ(first.channels[c].ranks, second.channels[c].ranks);
}

// The GPUs' PCIe of 1.5 GB/s is slower than any speed that NCCL tries: it takes the order of the list.
TEST(SearchGraphs, FallBackToTheOrderOfTheList) {
  const Machine machine = machineOf(slowPcie(nic(0, "0000:12:00.0", "mlx5_0")));
  SearchTrace trace;
  const CommunicatorGraphs graphs = searched(machine, {.trace = &trace});
  const ChannelGraph& ring = graphs.of(Algorithm::kRing);
  ASSERT_EQ(ring.channels.size(), 1U);
  EXPECT_FLOAT_EQ(ring.bandwidth_intra, 0.1F);
  EXPECT_EQ(ring.channels[0].ranks, (std::vector<int>{0, 1}));
  ASSERT_TRUE(trace.graphs[0].simple_order);
  EXPECT_FLOAT_EQ(trace.graphs[0].blocked.left, 0.75F);
}

TEST(SearchGraphs, NcclFailsWhereTheOrderOfTheListNeedsANic) {
  const Machine machine = machineOf(slowPcie(""));
  const auto found = searchGraphs(machine.domains[0], *machine.settings, {});
  ASSERT_FALSE(found.ok());
  EXPECT_HAS(found.error(), "fails its init");
}

TEST(SearchMachine, WithoutNicsThereIsNoSecondHost) {
  const auto graphs = searchMachine(machineOf(withoutNvlink()), {});
  ASSERT_OK(graphs);
  EXPECT_TRUE((*graphs)[0].one_host.has_value());
  EXPECT_FALSE((*graphs)[0].two_hosts.has_value());
}

// How many stages the search of all graphs goes through. NCCL goes through one with each of its steps.
struct Effort {
  long steps = 0;
  long visited = 0;
};
Effort effortOf(const std::string& file, int nodes) {
  const Settings settings;
  const auto machine = loadFile(RAILWISE_SOURCE_DIR "/tests/topo/machines/" + file, settings, {});
  EXPECT_OK(machine);
  SearchTrace trace;
  searched(*machine, {.nodes = nodes, .trace = &trace});
  Effort effort;
  for (const GraphTrace& graph : trace.graphs) {
    effort.steps += graph.steps;
    effort.visited += graph.visited;
  }
  return effort;
}

// The bounds are a few percent above what the search needs. More stages than that mean a slower search.
TEST(SearchGraphs, GoesThroughFewerStagesThanNccl) {
  struct Case {
    const char* file;
    int nodes;
    long steps;
    long visited;
  };
  constexpr std::array kCases = {Case{"synthetic/dgx1v.xml", 1, 90722, 88000},
                                 Case{"synthetic/dgx1v.xml", 2, 681890, 427000},
                                 Case{"synthetic/equal-4gpu-8nic.xml", 1, 234136, 138500},
                                 Case{"releases/blackwell-cx8.xml", 2, 5753807, 885000},
                                 Case{"synthetic/gb300-directnic.xml", 2, 425728, 291000}};
  for (const Case& c : kCases) {
    const Effort effort = effortOf(c.file, c.nodes);
    EXPECT_EQ(effort.steps, c.steps) << c.file << ", NCCL's steps";
    EXPECT_LE(effort.visited, c.visited) << c.file;
  }
}

}  // namespace
}  // namespace railwise::topo
