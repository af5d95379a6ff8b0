#include "sysfs/pci_devices.h"

#include <gtest/gtest.h>

namespace railwise::sysfs {
namespace {

TEST(PciOrder, OrdersByDomainBusDeviceFunction) {
  EXPECT_EQ(pciOrder("/sys/devices/pci0000:3a/0000:3b:00.1"), (0x3b << 12) | 1);
  EXPECT_LT(pciOrder("/x/0000:ff:1f.7"), pciOrder("/x/0001:00:00.0"));
  EXPECT_LT(pciOrder("/x/0000:09:00.0"), pciOrder("/x/0000:0a:00.0"));
  EXPECT_EQ(pciOrder("/sys/devices/platform/vmbus"), -1);
  EXPECT_EQ(pciOrder(""), -1);
}

TEST(FunctionIn, IsTheLastPciFunctionOfAPath) {
  EXPECT_EQ(functionIn("/sys/devices/pci0000:3a/0000:3b:00.1/virtio3"),
            "/sys/devices/pci0000:3a/0000:3b:00.1");
  EXPECT_EQ(functionIn("/sys/devices/pci0000:3a"), "");
  EXPECT_EQ(functionIn("sys"), "");
  EXPECT_EQ(functionIn(""), "");
}

TEST(PciDevices, AreReadInTheOrderOfTheirAddresses) {
  MemoryTree tree;
  for (const char* const busid : {"0000:3b:00.0", "0000:0a:00.0"}) {
    const std::string folder = "/sys/devices/pci0000:00/" + std::string(busid);
    tree.file(folder + "/class", "0x030200\n").file(folder + "/vendor", "0x10de\n");
    tree.link("/sys/bus/pci/devices/" + std::string(busid), folder);
  }
  const std::vector<PciDevice> devices = pciDevices(tree);
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].busid, "0000:0a:00.0");
  EXPECT_EQ(devices[1].vendor, "0x10de");
  EXPECT_EQ(gpuDevices(tree).size(), 2U);
}

TEST(NearestGpu, HasMostOfTheWayInCommon) {
  const std::string host = "/sys/devices/pci0000:15/0000:15:01.0/";
  MemoryTree tree;
  const auto addGpu = [&tree](const std::string& path) {
    tree.file(path + "/class", "0x030200\n")
        .file(path + "/vendor", "0x10de\n")
        .file(path + "/device", "0x2330\n");
    tree.link("/sys/bus/pci/devices/" + std::string(baseName(path)), path);
  };
  addGpu(host + "0000:16:00.0/0000:1a:00.0");
  addGpu(host + "0000:17:00.0/0000:1b:00.0");
  EXPECT_EQ(nearestGpu(tree, host + "0000:17:00.0/0000:18:00.0"), "0000:1b:00.0");
  EXPECT_EQ(nearestGpu(tree, host + "0000:16:00.0/0000:19:00.0"), "0000:1a:00.0");
  EXPECT_EQ(nearestGpu(MemoryTree(), host), "");
}

}  // namespace
}  // namespace railwise::sysfs
