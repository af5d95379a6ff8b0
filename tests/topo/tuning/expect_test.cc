// What to expect on small machines: the limit, the peak, all-to-all, text and JSON.
#include "topo/tuning/expect.h"

#include <array>

#include "base/text/text_layout.h"
#include "tests/ok.h"
#include "tests/topo/output_machines.h"
#include "topo/machine/machine.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo::tuning {
namespace {

using namespace topo::test;

constexpr std::array<std::size_t, 2> kSizes = {1024, std::size_t{1} << 30};

Expectation expectOn(const Machine& machine, int nodes, Collective collective) {
  const auto graphs = searchMachine(machine, {.one_host = nodes == 1, .two_hosts = nodes > 1});
  EXPECT_TRUE(graphs.ok());
  const DomainGraphs& found = graphs->front();
  return expectCollective(machine, machine.domains.front(), nodes == 1 ? *found.one_host : *found.two_hosts,
                          nodes, false, collective, kSizes);
}

TEST(Expect, TheCommunicatorIsThatOfTheMachine) {
  const Machine machine = machineOf(twoSwitches());
  const Communicator its = communicatorOn(machine, machine.domains.front(), 4, true);
  EXPECT_EQ(its.ranks(), 8);
  EXPECT_EQ(its.min_capability, 90);
  EXPECT_EQ(its.cpu_vendor, CpuVendor::kIntel);
}

TEST(Expect, BetweenNodesTheNicIsTheLimit) {
  const Machine machine = machineOf(twoSwitches());
  const Expectation its = expectOn(machine, 4, Collective::kAllReduce);
  ASSERT_EQ(its.sizes.size(), 2U);
  EXPECT_EQ(its.sizes[0].choice->protocol, Protocol::kLl);
  EXPECT_EQ(its.sizes[1].choice->protocol, Protocol::kSimple);
  EXPECT_GT(its.peak, its.sizes[1].bus_bandwidth);
  EXPECT_HAS(its.limit, "The limit is the network: NET/0 (mlx5_0) carries");
}

TEST(Expect, InsideANodeNvlinkIsTheLimit) {
  const Expectation its = expectOn(machineOf(twoSwitches()), 1, Collective::kAllGather);
  EXPECT_HAS(its.limit, "The limit is NVLink");
}

TEST(Expect, TheRingsTakeTheirShareOfTheNics) {
  const Expectation its = expectOn(machineOf(twoSwitches()), 2, Collective::kAllReduce);
  EXPECT_NEAR(its.ring_network, 96, 1e-3) << "48 of 50 GB/s of each NIC";
  EXPECT_EQ(its.ring_nics, (std::vector<std::string>{"mlx5_0", "mlx5_1"}));
  EXPECT_EQ(expectOn(machineOf(twoSwitches()), 1, Collective::kAllReduce).ring_network, 0);
}

TEST(Expect, AQuestionIsAnsweredForEveryDomain) {
  const Machine machine = machineOf(twoSwitches());
  const auto answers =
      tuning::expectOn(machine, {.collective = Collective::kAllReduce, .nodes = 4, .nvls = false}, kSizes);
  ASSERT_OK(answers);
  ASSERT_EQ(answers->size(), machine.domains.size());
  EXPECT_EQ(answers->front().peak, expectOn(machine, 4, Collective::kAllReduce).peak);
  const auto all_to_all = tuning::expectOn(machine, {.collective = std::nullopt, .nodes = 4}, kSizes);
  ASSERT_OK(all_to_all);
  EXPECT_EQ(all_to_all->front().peak, expectAllToAll(machine, machine.domains.front(), 4, kSizes).peak);
}

TEST(Expect, WithoutANicThereIsNoSecondNode) {
  const Machine machine = machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0") + gpu(1, "0000:12:00.0"))));
  EXPECT_OK(tuning::expectOn(machine, {.nodes = 1}, kSizes));
  const auto two = tuning::expectOn(machine, {.nodes = 2}, kSizes);
  ASSERT_FALSE(two.ok());
  EXPECT_EQ(two.failure().code, Code::kNoDevice);
  EXPECT_EQ(two.error(), "test.xml: no GPU reaches a NIC, so there is no communicator of 2 nodes");
}

TEST(Expect, AllToAllIsBoundByTheNicOfEachGpu) {
  const Machine machine = machineOf(twoSwitches());
  const Expectation its = expectAllToAll(machine, machine.domains.front(), 4, kSizes);
  // 6 of 8 parts of a GPU's buffer go through its NIC, 7 of 8 count. The port has 50 GB/s, its PCIe link 48.
  EXPECT_NEAR(its.peak, 48.0 * 7 / 6, 1e-3);
  EXPECT_HAS(its.limit, "sends to other nodes by NET/");
  EXPECT_LT(its.sizes[0].bus_bandwidth, its.sizes[1].bus_bandwidth);
}

TEST(Expect, GpuDirectThatIsOffIsSaid) {
  EXPECT_LACKS(expectOn(machineOf(twoSwitches()), 2, Collective::kAllReduce).limit, "GPUDirect");
  const Machine machine = machineOf(flat());
  EXPECT_HAS(expectOn(machine, 2, Collective::kAllReduce).limit, "GPUDirect is off between GPU 0 and NET/0");
  EXPECT_LACKS(expectOn(machine, 1, Collective::kAllReduce).limit, "GPUDirect");
  EXPECT_HAS(expectAllToAll(machine, machine.domains.front(), 2, kSizes).limit, "GPUDirect is off");
}

TEST(Expect, AllToAllInsideANode) {
  const Machine machine = machineOf(twoSwitches());
  const Expectation its = expectAllToAll(machine, machine.domains.front(), 1, kSizes);
  EXPECT_NEAR(its.peak, static_cast<double>(machine.domains.front().total_bandwidth), 1e-3);
}

// What NCCL's code answers (2.30.7: src/graph/tuning.cc, 2.31.2: src/tuning) on four GPUs of GB300.
TEST(Expect, AnswersOfNcclForBothModels) {
  constexpr std::size_t kSize = std::size_t{32} << 20;
  const auto answer = [](NcclVersion nccl, int nodes, Collective collective, const char* choice) {
    Settings settings{.nccl = nccl};
    const auto machine =
        loadFile(RAILWISE_SOURCE_DIR "/tests/topo/machines/synthetic/gb300-directnic.xml", settings, {});
    ASSERT_TRUE(machine.ok()) << machine.error();
    const std::array sizes = {kSize};
    const auto answers = tuning::expectOn(*machine, {.collective = collective, .nodes = nodes}, sizes);
    ASSERT_TRUE(answers.ok()) << answers.error();
    const ExpectedSize& size = answers->front().sizes.front();
    EXPECT_EQ(
        formatText("%s/%s %.2f", nameOf(size.choice->algorithm), nameOf(size.choice->protocol), size.time_us),
        choice)
        << ncclVersionName(nccl);
  };
  answer(NcclVersion::k2_31, 1, Collective::kAllGather, "Ring/LL128 59.02");
  answer(NcclVersion::k2_30, 1, Collective::kAllGather, "Ring/Simple 53.55");
  answer(NcclVersion::k2_31, 2, Collective::kAllReduce, "Ring/LL128 228.30");
  answer(NcclVersion::k2_30, 2, Collective::kAllReduce, "NVLSTree/Simple 219.72");
}

TEST(Expect, TextNamesTheSourceAndFitsATerminal) {
  const Machine machine = machineOf(twoSwitches());
  const std::string text =
      expectationText(machine, {expectOn(machine, 4, Collective::kAllReduce),
                                expectAllToAll(machine, machine.domains.front(), 4, kSizes)});
  EXPECT_HAS(text, "all_reduce, 4 nodes of 2 GPUs. The rules and the cost model are those\nof NCCL 2.31.2.");
  EXPECT_HAS(text, "this is an\nestimate of Railwise");
  EXPECT_HAS(text, "     1 GiB  ");
  for (std::size_t from = 0; from < text.size(); from = text.find('\n', from) + 1)
    EXPECT_LE(text.find('\n', from) - from, 80U) << text.substr(from, 100);
}

TEST(Expect, JsonHasNcclsTable) {
  const Machine machine = machineOf(twoSwitches());
  const std::string json = expectationJson(machine, {expectOn(machine, 4, Collective::kAllReduce)});
  EXPECT_HAS(json, "\"algorithm\": \"Ring\", \"protocol\": \"Simple\", \"latency_us\": ");
  EXPECT_HAS(json, "\"source\": \"nccl\"");
}

}  // namespace
}  // namespace railwise::topo::tuning
