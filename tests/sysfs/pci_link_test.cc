#include <gtest/gtest.h>

#include "sysfs/pci_devices.h"

namespace railwise::sysfs {
namespace {

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
