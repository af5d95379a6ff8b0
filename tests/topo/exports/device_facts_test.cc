
#include "tests/ok.h"
#include "tests/topo/exports/export_machines.h"
#include "topo/exports/host_view.h"

namespace railwise::topo {
namespace {

constexpr char kFolder[] = "/sys/devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0";

// A PCI device below a root port.
void addDevice(sysfs::MemoryTree& tree, const std::string& busid, const std::string& pci_class,
               const std::string& vendor) {
  const std::string folder = "/sys/devices/pci0000:c0/0000:c0:01.0/" + busid;
  tree.file(folder + "/class", pci_class + "\n").file(folder + "/vendor", vendor + "\n");
  tree.file(folder + "/device", "0x2330\n").file(folder + "/numa_node", "0\n");
  tree.link("/sys/bus/pci/devices/" + busid, folder);
  tree.link("/sys/class/pci_bus/" + busid.substr(0, 7), "/sys/devices/pci0000:c0/0000:c0:01.0/pci_bus/x");
}

TEST(DeviceFacts, ReadsRootsDeviceNodesAndSiblings) {
  sysfs::MemoryTree tree;
  addDevice(tree, "0000:c1:00.0", "0x030200", "0x1002");
  addDevice(tree, "0000:c2:00.0", "0x020700", "0x15b3");
  tree.file(std::string(kFolder) + "/drm/renderD129/dev", "226:129\n");
  tree.folder("/sys/devices/pci0000:c0/0000:c0:01.0/0000:c2:00.0/infiniband_verbs/uverbs5");
  tree.link("/sys/class/infiniband/mlx5_7/device", "/sys/devices/pci0000:c0/0000:c0:01.0/0000:c2:00.0");
  tree.file("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n");
  tree.file("/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2\n");
  tree.folder("/sys/devices/system/cpu/cpufreq");
  tree.file("/sys/devices/system/node/node3/cpumap", "00000005\n");
  const DeviceFacts facts = readDeviceFacts(tree);
  EXPECT_EQ(facts.pcie_roots.at("0000:c1:00.0"), "pci0000:c0");
  EXPECT_EQ(facts.render_nodes, (std::map<std::string, std::string>{{"0000:c1:00.0", "renderD129"}}));
  EXPECT_EQ(facts.uverbs, (std::map<std::string, std::string>{{"mlx5_7", "uverbs5"}}));
  EXPECT_EQ(facts.numa_masks, (std::map<int, std::string>{{3, "00000005"}}));
  EXPECT_EQ(facts.first_sibling, (std::map<int, int>{{0, 0}, {2, 0}}));
}

TEST(DeviceFacts, ARecordedTreeWithRootPortsAloneMayBeAVm) {
  sysfs::MemoryTree tree;
  addDevice(tree, "0000:c1:00.0", "0x030200", "0x10de");
  EXPECT_EQ(readDeviceFacts(tree).tree_hidden, std::nullopt);
}

TEST(DeviceFacts, AnEmptyTreeTellsNothing) {
  const DeviceFacts facts = readDeviceFacts(sysfs::MemoryTree());
  EXPECT_TRUE(facts.pcie_roots.empty());
  EXPECT_TRUE(facts.first_sibling.empty());
  EXPECT_EQ(facts.tree_hidden, std::nullopt);
}

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
  EXPECT_HAS(cores.note, "one thread for each core is assumed");
}

TEST(ExportCores, SeesTheThreadsOfX86InTheMasks) {
  const HostCores cores = hostCores(*withMasks("00000f0f", "0000f0f0").graph, {});
  EXPECT_EQ(coresText(cores, 0), "0-3");
  EXPECT_EQ(coresText(cores, 1), "4-7");
  EXPECT_EQ(cores.nodes.at(1).cores[0], (std::vector<int>{4, 12}));
  EXPECT_HAS(cores.note, "numbered 8 apart");
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
  EXPECT_HAS(cores.note, "numbered 16 apart");
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
