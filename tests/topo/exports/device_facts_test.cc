#include "topo/exports/device_facts.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace railwise::topo
