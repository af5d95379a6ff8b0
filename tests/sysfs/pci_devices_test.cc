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

TEST(ModuleLoaded, AlsoFarDownTheKernelsList) {
  std::string modules;
  for (int i = 0; i < 200; ++i) modules += "module" + std::to_string(i) + " 16384 1 - Live 0x0\n";
  MemoryTree tree;
  tree.file("/proc/modules", modules + "amdgpu 16384 1 - Live 0x0\n");
  EXPECT_TRUE(moduleLoaded(tree, "amdgpu"));
  EXPECT_FALSE(moduleLoaded(tree, "nvidia"));
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

constexpr const char* kNic = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0";

MemoryTree linkAt(const std::string& path, const std::string& which, const std::string& speed,
                  const std::string& width) {
  MemoryTree tree;
  tree.file(path + "/" + which + "_link_speed", speed + "\n")
      .file(path + "/" + which + "_link_width", width + "\n");
  return tree;
}

TEST(PciLink, CarriesLessThanItsRate) {
  const auto link = [](const char* speed, const char* width) {
    return currentLink(linkAt(kNic, "current", speed, width), kNic);
  };
  EXPECT_EQ(link("32.0 GT/s PCIe", "16").mbps(), 504'123U);
  EXPECT_EQ(link("32.0 GT/s PCIe", "16").text(), "32 GT/s x16");
  EXPECT_EQ(link("2.5 GT/s PCIe", "4").text(), "2.5 GT/s x4");
  EXPECT_EQ(link("5.0 GT/s PCIe", "4").mbps(), 16'000U);
}

TEST(PciLink, NonsenseIsNotKnown) {
  for (const auto& [speed, width] : {std::pair{"Unknown", "16"},
                                     {"8.0 GT/s", "0"},
                                     {"8.0 GT/s", "255"},
                                     {"8.0 GT/s", "63"},
                                     {"", ""},
                                     {"inf", "16"}})
    EXPECT_FALSE(currentLink(linkAt(kNic, "current", speed, width), kNic).known()) << speed << " " << width;
  EXPECT_FALSE(currentLink(MemoryTree(), kNic).known());
}

TEST(PciLink, TheSlotLimitsTheCard) {
  MemoryTree tree = linkAt(kNic, "max", "32.0 GT/s PCIe", "16");
  EXPECT_EQ(bestLinkInSlot(tree, kNic).text(), "32 GT/s x16");
  const std::string slot = std::string(kNic).substr(0, std::string(kNic).rfind('/'));
  tree.file(slot + "/max_link_speed", "16.0 GT/s PCIe\n").file(slot + "/max_link_width", "32\n");
  EXPECT_EQ(bestLinkInSlot(tree, kNic).text(), "16 GT/s x16");
  EXPECT_EQ(bestLink(tree, kNic).text(), "32 GT/s x16");
}

TEST(PciLink, TheNarrowestOfThePathCounts) {
  const std::string root = "/sys/devices/pci0000:15/0000:15:01.0";
  MemoryTree tree = linkAt(root, "current", "32.0 GT/s PCIe", "16");
  tree.file(root + "/0000:16:00.0/current_link_speed", "8.0 GT/s PCIe\n");
  tree.file(root + "/0000:16:00.0/current_link_width", "8\n");
  tree.file(std::string(kNic) + "/current_link_speed", "Unknown\n");
  EXPECT_EQ(narrowestLink(tree, kNic).text(), "8 GT/s x8");
  EXPECT_FALSE(narrowestLink(tree, "").known());
  EXPECT_FALSE(narrowestLink(tree, "/sys/devices/virtual/x").known());
}

}  // namespace

}  // namespace railwise::sysfs
