#include <sstream>

#include "tests/ok.h"
#include "tests/topo/json_check.h"
#include "tests/topo/output_machines.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo {
namespace {

using namespace test;

std::string searchedText(const Machine& machine, bool why = false) {
  const auto graphs = searchMachine(machine, {.traces = true});
  EXPECT_OK(graphs);
  return graphsText(machine, *graphs, why);
}

TEST(GraphsText, ChannelsWithTheirNicsAndGpus) {
  const std::string text = searchedText(machineOf(twoSwitches()));
  EXPECT_HAS(text, "Ranks 0, 1, with a second, equal machine\n");
  EXPECT_HAS(text, "mlx5_0 > 0 1 > mlx5_0");
  EXPECT_HAS(text, "mlx5_1 > 1 0 > mlx5_1");
  EXPECT_LACKS(text, "NCCL looked for");
}

TEST(GraphsText, LinesFitATerminal) {
  std::istringstream lines(searchedText(machineOf(equallyNear()), true));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(GraphsText, WhySaysWhatWasTriedAndWhyItEnded) {
  const std::string text = searchedText(machineOf(twoSwitches()), true);
  EXPECT_HAS(text, "NCCL looked for 1 to 32 channels of the pattern ring");
  EXPECT_HAS(text, "60 GB/s a channel: 6 channels in attempt 1 (ring, NVL between GPUs");
  EXPECT_HAS(text, "GB/s a channel: nothing better in ");
  EXPECT_HAS(text, "the search ended");
}

TEST(GraphsText, WhySaysWhichLinkIsMissing) {
  const std::string text =
      replaced(searchedText(machineOf(slowPcie(nic(0, "0000:12:00.0", "mlx5_0"))), true), "\n      ", " ");
  EXPECT_HAS(text, "Could not find a path for pattern 4, falling back to simple order");
  EXPECT_HAS(text, "the link from GPU 0 to NUMA node 0, on the path from GPU 0 to GPU 1, has 0.75 GB/s left");
}

TEST(GraphsJson, IsJsonWithAllGraphs) {
  const Machine machine = machineOf(twoSwitches());
  const auto graphs = searchMachine(machine, {.traces = true});
  ASSERT_OK(graphs);
  for (const bool why : {false, true}) {
    const std::string json = graphsJson(machine, *graphs, why);
    EXPECT_TRUE(JsonCheck::isJson(json)) << json;
    for (const char* key : {"\"nodes1\"", "\"nodes2\"", "\"ring\"", "\"collnet_direct\"", "\"nvls\""})
      EXPECT_HAS(json, key);
    EXPECT_EQ(railwise::test::has(json, "\"attempts\""), why);
  }
}

TEST(GraphsText, OfAllRealMachinesWithoutAFailure) {
  const auto machine = realMachine("azure/ndv4-topo.xml", {.gpu_sm = 80, .nvswitch_links = 12});
  if (!machine) GTEST_SKIP() << "no ../shared/topologies";
  EXPECT_HAS(searchedText(*machine), "Ring: 8 channels, 24 GB/s inside, 24 between hosts");
}

}  // namespace
}  // namespace railwise::topo
