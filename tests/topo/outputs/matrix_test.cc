#include "base/text/words.h"
#include "tests/ok.h"
#include "tests/topo/output_machines.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo {
namespace {

using namespace test;

TEST(Matrix, IsLikeNvidiaSmi) {
  const std::string text = matrixText(machineOf(twoSwitches()));
  EXPECT_HAS(text,
             "     GPU0 GPU1   NIC0 NIC1   CPU Affinity  NUMA Affinity\n"
             "GPU0    X NV18    PIX  PXN   0-3           0\n"
             "GPU1 NV18    X    PXN  PIX   4-7           1\n"
             "\n"
             "NIC0  PIX  SYS      X  SYS   0-3           0\n"
             "NIC1  SYS  PIX    SYS    X   4-7           1\n");
}

TEST(Matrix, ExplainsTheTypesThatOccurAndNoOthers) {
  const std::string text = matrixText(machineOf(twoSwitches()));
  EXPECT_HAS(text, std::string("  PIX   ") + pathTypeMeaning(PathType::kPix));
  EXPECT_HAS(text, "  NV#   NVLink");
  EXPECT_LACKS(text, "  PHB   ");
  EXPECT_LACKS(text, "XGMI");
}

TEST(Matrix, NamesDevicesAndTheNicOfEachGpu) {
  const std::string text = matrixText(machineOf(twoSwitches()));
  EXPECT_HAS(text, "  NIC0: mlx5_0, 400 Gb/s, 0000:12:00.0\n");
  EXPECT_HAS(text, "  GPU1: 0000:21:00.0, NVML index 1, sm 90\n");
  EXPECT_HAS(text, "GPU 1  mlx5_1  PIX   48    on         all\n");
}

TEST(Matrix, WithoutNicsHasNoLegendOfThem) {
  EXPECT_LACKS(matrixText(machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0"))))), "NIC Legend");
  EXPECT_HAS(matrixText(machineOf(twoSwitches())), "NIC Legend");
}

// An NVLink of a P100 is slower than one of an H100.
TEST(Matrix, NvlinkThatIsNoMultipleOfALinkHasNoNumber) {
  const std::string xml = replaced(twoSwitches(), "count=\"18\"", "count=\"1\"");
  EXPECT_HAS(matrixText(machineOf(replaced(xml, "dev=\"1\" sm=\"90\"", "dev=\"1\" sm=\"60\""))),
             "GPU0    X  NVL ");
}

TEST(Matrix, CallsNvlinkOfAmdXgmi) {
  const auto machine = realMachine("rcclx/topo_8p_942.xml");
  if (!machine) GTEST_SKIP() << "no ../shared/topologies";
  const std::string text = matrixText(*machine);
  EXPECT_HAS(text, "GPU0    X XGMI XGMI");
  EXPECT_HAS(text, ", GPU number 0, gfx942");
  for (const char* word : {"NVLink", "NVML", "NCCL "}) EXPECT_LACKS(text, word);
  EXPECT_LACKS(text, "NV#");
}

TEST(Matrix, ControlCharactersOfAFileDoNotReachTheTerminal) {
  const std::string text = matrixText(machineOf(twoSwitches("evil\x1b[2J")));
  EXPECT_LACKS(text, "\x1b");
  EXPECT_HAS(text, "evil?[2J");
}

// On a terminal the matrix is cut into parts, between groups of devices.
TEST(Matrix, FitsTheColumns) {
  const Machine machine = machineOf(twoSwitches());
  const std::string whole = matrixText(machine);
  EXPECT_EQ(matrixText(machine, 1000), whole);
  const std::string cut = matrixText(machine, 50);
  EXPECT_NE(cut, whole);
  const std::string matrix = cut.substr(0, cut.find("Legend"));
  for (const std::string& line : splitAt(matrix, '\n')) EXPECT_LE(line.size(), 50U) << line;
  for (const char* name : {"GPU0 GPU1", "NIC0 NIC1", "NUMA Affinity"}) EXPECT_HAS(matrix, name) << cut;
  EXPECT_HAS(matrixText(machine, 20), "       NIC0 NIC1\n") << "each part has its own width";
}

}  // namespace
}  // namespace railwise::topo
