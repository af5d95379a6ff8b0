#include "tests/ok.h"
#include "tests/topo/json_check.h"
#include "tests/topo/output_machines.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo {
namespace {

using namespace test;

std::string textOn(const std::string& xml, const TransportsShown& shown, const Settings& settings = {}) {
  const Machine machine = machineOf(xml, settings);
  return transportsText(Transports(machine, {}), shown);
}

TEST(TransportsText, IsAMatrixWithItsReasons) {
  const std::string text = textOn(twoSwitches(), {});
  EXPECT_HAS(text,
             "GPU   0   1\n"
             "0     X P2P\n"
             "1   P2P   X\n");
  EXPECT_HAS(text, "P2P/CUMEM (2 pairs)\n  P2P  yes: NVL <= PXB");
  EXPECT_HAS(text, "NVLS: yes: ");
  EXPECT_LACKS(text, "another host");
}

TEST(TransportsText, NamesTheNicsTowardsAnotherHost) {
  const std::string text = textOn(twoSwitches(), {.nodes = 2});
  EXPECT_HAS(text,
             "GPU            2    3\n"
             "0              0 1(1)\n"
             "1           0(0)    1\n"
             "received by    0    1\n"
             "\n"
             "NIC: 0 mlx5_0, 1 mlx5_1\n");
}

TEST(TransportsText, OnePairTellsEveryStepAndTheLogLine) {
  const std::string text = textOn(twoSwitches(), {.from = 0, .to = 1, .nodes = 2});
  EXPECT_HAS(text, "GPU 0 -> GPU 1: P2P/CUMEM\n");
  EXPECT_HAS(text, "GPU 0 -> GPU 1 of another host like this: NET/GDRDMA, mlx5_1 -> mlx5_1\n");
  EXPECT_HAS(text, "  SHM  no:  the ranks are on two hosts\n");
  EXPECT_HAS(text, "  PXN  yes: GPU 1 sends for GPU 0");
  EXPECT_HAS(text, "    Channel 00/1 : 0[0] -> 3[1] [send] via NET/Railwise/1(1)/GDRDMA\n");
}

TEST(TransportsText, EightGpusFitATerminal) {
  std::string inner;
  for (int i = 0; i < 8; ++i) inner += gpu(i, "0000:1" + std::to_string(i) + ":00.0");
  const std::string text = textOn(systemOf(cpu(0, inner + nic(0, "0000:20:00.0", "mlx5_0"))), {.nodes = 2},
                                  {.p2p_read_enable = 1});
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    EXPECT_LE(end - at, 80U) << text.substr(at, end - at);
}

TEST(TransportsText, ManyGpusHaveALetterEach) {
  std::string inner;
  for (int i = 0; i < 24; ++i) inner += gpu(i, "0000:" + std::to_string(10 + i) + ":00.0");
  const std::string text = textOn(systemOf(cpu(0, inner)), {}, {.p2p_read_enable = 1});
  EXPECT_HAS(text, "GPU  0         1         2   \n     012345678901234567890123\n0    XRRRR");
  EXPECT_HAS(text, "R: P2P and the receiver reads");
}

TEST(TransportsJson, HasPairsAndTheirClasses) {
  const Machine machine = machineOf(twoSwitches());
  const std::string json = transportsJson(Transports(machine, {}), {.nodes = 2});
  EXPECT_TRUE(JsonCheck::isJson(json)) << json;
  EXPECT_HAS(json, "\"pairs\": [\n    [0, 1, 0],\n    [1, 0, 0]\n  ]");
  EXPECT_HAS(json, "[0, 1, 1, \"NET/1\", 1, 1, \"NET/1\", 1]");
  EXPECT_HAS(json, "\"name\": \"NET/GDRDMA\"");
}

TEST(TransportsJson, IsPartOfTheTopology) {
  const std::string json = topologyJson(machineOf(twoSwitches()));
  EXPECT_HAS(json, "\"transports\": {");
  EXPECT_HAS(json, "\"name\": \"P2P/CUMEM\"");
}

}  // namespace
}  // namespace railwise::topo
