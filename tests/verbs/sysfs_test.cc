#include "verbs/sysfs.h"

#include <filesystem>
#include <fstream>

#include "software_device.h"

namespace railwise::verbs {
namespace {

PciPlace placeOf(const std::string& pci) {
  const test::SoftwareDevice device(pci.empty() ? "" : "pci=" + pci);
  return pciPlace(device.open()->device);
}

TEST(PciOrder, OrdersByDomainBusDeviceFunction) {
  EXPECT_EQ(pciOrder("/sys/devices/pci0000:3a/0000:3b:00.1"), (0x3b << 12) | 1);
  EXPECT_LT(pciOrder("/x/0000:ff:1f.7"), pciOrder("/x/0001:00:00.0"));
  EXPECT_LT(pciOrder("/x/0000:09:00.0"), pciOrder("/x/0000:0a:00.0"));
  EXPECT_EQ(pciOrder("/sys/devices/platform/vmbus"), -1);
  EXPECT_EQ(pciOrder(""), -1);
}

TEST(PciPlace, PortsOfACardAreFunctionZero) {
  const PciPlace place = placeOf("/sys/devices/pci0000:3a/0000:3b:00.1");
  EXPECT_EQ(place.path, "/sys/devices/pci0000:3a/0000:3b:00.1");
  EXPECT_EQ(place.function0_path, "/sys/devices/pci0000:3a/0000:3b:00.0");
}

TEST(PciPlace, ADeviceOutsidePciHasNone) { EXPECT_EQ(placeOf("").path, ""); }

TEST(PeerMemoryModule, IsNamedByWhatItPublishes) {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / ("peer" + std::to_string(getpid()));
  EXPECT_EQ(peerMemoryModule(root), "");
  for (const auto& [folder, module] : {std::pair("sys/memory_peers/amdkfd", "amdgpu"),
                                       std::pair("sys/kernel/mm/memory_peers/nv_mem", "nv_peer_mem"),
                                       std::pair("sys/module/nvidia_peermem", "nvidia_peermem")}) {
    std::filesystem::create_directories(root / folder);
    std::ofstream(root / folder / "version") << "1\n";
    EXPECT_EQ(peerMemoryModule(root), module);
  }
  std::filesystem::remove_all(root);
}

TEST(ReadSysfs, AMissingFileIsEmpty) {
  EXPECT_EQ(readSysfs("/sys/no/such/file"), "");
  EXPECT_NE(readSysfs("/proc/sys/kernel/ostype"), "");
}

}  // namespace
}  // namespace railwise::verbs
