// The file of --hosts, and PCIe links.
#include "doctor/pair/host_file.h"

#include <gtest/gtest.h>

#include "doctor/pair/pcie_path.h"
#include "ok.h"

namespace railwise::doctor::pair {
namespace {

std::string errorOf(std::string_view text) {
  const auto hosts = parseHostFile(text, "hosts");
  return hosts.ok() ? "" : hosts.error();
}

TEST(HostFile, HasOneHostPerLine) {
  const auto hosts = parseHostFile("# two hosts\n\n  node1 slots=8\r\nroot@10.0.0.2 # the second\n", "hosts");
  ASSERT_OK(hosts);
  EXPECT_EQ(*hosts, (std::vector<std::string>{"node1", "root@10.0.0.2"}));
}

TEST(HostFile, ErrorsNameTheLine) {
  EXPECT_EQ(errorOf("node1\n-oProxyCommand=x\n"),
            "hosts:2: '-oProxyCommand=x' is not the name of a host (letters, digits, . - _ : @)");
  EXPECT_EQ(errorOf("node1\n\nnode1"), "hosts:3: node1 is there twice: take one of the lines out");
  EXPECT_EQ(errorOf("# nobody\n"), "hosts: no host in it; write one host per line");
  std::string many;
  for (std::size_t i = 0; i <= kMaxHosts; ++i) many += "n" + std::to_string(i) + "\n";
  EXPECT_EQ(errorOf(many), "hosts:257: more than 256 hosts: test them in parts");
}

TEST(HostName, IsNothingThatAShellWouldTouch) {
  EXPECT_TRUE(isHostName("user@node-1.example.org"));
  for (const char* const name : {"", "-x", "a b", "a;b", "$(x)", "a@b@c", "`x`"})
    EXPECT_FALSE(isHostName(name));
}

TEST(PcieLink, CarriesLessThanItsRate) {
  EXPECT_EQ(pcieLink("32.0 GT/s PCIe", "16").mbps, 504'123U);
  EXPECT_EQ(pcieLink("32.0 GT/s PCIe", "16").text, "32.0 GT/s x16");
  EXPECT_EQ(pcieLink("5.0 GT/s PCIe", "4").mbps, 16'000U);
  for (const auto& [speed, width] : {std::pair{"Unknown", "16"}, {"8.0 GT/s", "0"}, {"", ""}, {"inf", "16"}})
    EXPECT_EQ(pcieLink(speed, width).mbps, 0U) << speed;
}

TEST(PcieLink, TheNarrowestOfThePathCounts) {
  const std::string root = "/sys/devices/pci0000:15/0000:15:01.0";
  const std::string nic = root + "/0000:16:00.0/0000:17:00.0";
  sysfs::MemoryTree tree;
  tree.file(root + "/current_link_speed", "32.0 GT/s PCIe\n").file(root + "/current_link_width", "16\n");
  tree.file(root + "/0000:16:00.0/current_link_speed", "8.0 GT/s PCIe\n");
  tree.file(root + "/0000:16:00.0/current_link_width", "8\n");
  tree.file(nic + "/current_link_speed", "Unknown\n").file(nic + "/current_link_width", "0\n");
  EXPECT_EQ(narrowestPcieLink(tree, nic).text, "8.0 GT/s x8");
  EXPECT_EQ(narrowestPcieLink(tree, "").mbps, 0U);
  EXPECT_EQ(narrowestPcieLink(tree, "/sys/devices/virtual/x").mbps, 0U);
}

TEST(NearestGpu, HasMostOfTheWayInCommon) {
  const std::string host = "/sys/devices/pci0000:15/0000:15:01.0/";
  sysfs::MemoryTree tree;
  const auto addGpu = [&tree](const std::string& path) {
    tree.file(path + "/class", "0x030200\n")
        .file(path + "/vendor", "0x10de\n")
        .file(path + "/device", "0x2330\n");
    tree.link("/sys/bus/pci/devices/" + std::string(sysfs::baseName(path)), path);
  };
  addGpu(host + "0000:16:00.0/0000:1a:00.0");
  addGpu(host + "0000:17:00.0/0000:1b:00.0");
  EXPECT_EQ(nearestGpu(tree, host + "0000:17:00.0/0000:18:00.0"), "0000:1b:00.0");
  EXPECT_EQ(nearestGpu(tree, host + "0000:16:00.0/0000:19:00.0"), "0000:1a:00.0");
  EXPECT_EQ(nearestGpu(sysfs::MemoryTree(), host), "");
}

}  // namespace
}  // namespace railwise::doctor::pair
