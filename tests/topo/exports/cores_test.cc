#include "tests/topo/exports/export_machines.h"
#include "topo/exports/device_facts.h"

namespace railwise::topo {
namespace {

using namespace test;

// Two NUMA nodes with these CPU masks.
Machine withMasks(const std::string& first, const std::string& second) {
  std::string xml = twoSwitches();
  xml.replace(xml.find("000000f0"), 8, second);
  xml.replace(xml.find("0000000f"), 8, first);
  return machineOf(xml);
}

TEST(ExportCores, CountsNodeAfterNode) {
  const HostCores cores = hostCores(*machineOf(twoSwitches()).graph, {});
  EXPECT_EQ(coresText(cores, 0), "0-3");
  EXPECT_EQ(coresText(cores, 1), "4-7");
  EXPECT_TRUE(has(cores.note, "one thread for each core is assumed"));
}

TEST(ExportCores, SeesTheThreadsOfX86InTheMasks) {
  const HostCores cores = hostCores(*withMasks("00000f0f", "0000f0f0").graph, {});
  EXPECT_EQ(coresText(cores, 0), "0-3");
  EXPECT_EQ(coresText(cores, 1), "4-7");
  EXPECT_EQ(cores.nodes.at(1).cores[0], (std::vector<int>{4, 12}));
  EXPECT_TRUE(has(cores.note, "numbered 8 apart")) << cores.note;
}

TEST(ExportCores, CountsCpusOfNodesThatTheModelDoesNotHave) {
  // Of four NUMA nodes with four CPUs each, the second and the fourth have devices.
  HostCores cores = hostCores(*withMasks("000000f0", "0000f000").graph, {});
  EXPECT_EQ(coresText(cores, 0), "4-7");
  EXPECT_EQ(coresText(cores, 1), "12-15");
  // The same with two threads for each core.
  cores = hostCores(*withMasks("00f000f0", "f000f000").graph, {});
  EXPECT_EQ(coresText(cores, 0), "4-7");
  EXPECT_EQ(coresText(cores, 1), "12-15");
  EXPECT_TRUE(has(cores.note, "numbered 16 apart")) << cores.note;
}

TEST(ExportCores, TakesAllNodesOfSys) {
  DeviceFacts facts;
  facts.numa_masks = {{0, "000000f0"}, {1, "0000f000"}, {2, "0000000f"}, {3, "00000f00"}};
  const HostCores cores = hostCores(*withMasks("000000f0", "0000f000").graph, facts);
  EXPECT_EQ(cores.nodes.size(), 4U);
  EXPECT_EQ(coresText(cores, 1), "12-15");
  EXPECT_EQ(coresText(cores, 2), "0-3");
}

TEST(ExportCores, CountsSocketAfterSocketWhereCpusAlternate) {
  const HostCores cores = hostCores(*withMasks("00000055", "000000aa").graph, {});
  EXPECT_EQ(coresText(cores, 0), "0-1");  // CPUs 0, 4 and 2, 6: taken for two threads each
  EXPECT_EQ(coresText(cores, 1), "2-3");
}

TEST(ExportCores, BelievesWhatSysTells) {
  DeviceFacts facts;
  for (int cpu = 0; cpu < 8; ++cpu) facts.first_sibling[cpu] = cpu / 2 * 2;
  const HostCores cores = hostCores(*machineOf(twoSwitches()).graph, facts);
  EXPECT_EQ(coresText(cores, 0), "0-1");
  EXPECT_EQ(coresText(cores, 1), "2-3");
  EXPECT_EQ(cores.note, "");
}

TEST(ExportCores, TheNodeOfCpu0ComesFirst) {
  const HostCores cores = hostCores(*withMasks("000000f0", "0000000f").graph, {});
  EXPECT_EQ(coresText(cores, 0), "4-7");
  EXPECT_EQ(coresText(cores, 1), "0-3");
}

TEST(ExportCores, ACpuOfTwoMasksBelongsToTheFirst) {
  const HostCores cores = hostCores(*withMasks("000000ff", "000000ff").graph, {});
  EXPECT_EQ(coresText(cores, 0), "0-7");
  EXPECT_EQ(coresText(cores, 1), "");
}

TEST(ExportCores, WithoutMasksThereAreNoCores) {
  const HostCores cores = hostCores(*withMasks("", "").graph, {});
  EXPECT_FALSE(cores.masks_known);
  EXPECT_EQ(coresText(cores, 0), "");
}

}  // namespace
}  // namespace railwise::topo
