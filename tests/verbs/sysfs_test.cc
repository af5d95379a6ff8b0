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

// /sys as the kernel shows it: a card with two functions, the first virtio's, whose driver is one level
// below; interfaces on it, and on nothing.
class PciPlaceInSysfs : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& folder :
         {first_ + "/virtio3/net/eth0", second_ + "/net/eth1", virtual_net_ + "veth0"})
      std::filesystem::create_directories(root_ / folder);
    link("class/net/eth0", first_ + "/virtio3/net/eth0"),
        link(first_ + "/virtio3/net/eth0/device", first_ + "/virtio3");
    link("class/net/eth1", second_ + "/net/eth1"), link(second_ + "/net/eth1/device", second_);
    link("class/net/veth0", virtual_net_ + "veth0");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void link(const std::string& from, const std::string& to) const {
    const std::filesystem::path path = sys(from);
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::create_symlink(sys(to), path);
  }
  std::filesystem::path sys(const std::string& path) const {
    return root_ / (path.starts_with("sys/") ? path : "sys/" + path);
  }
  // rxe's device; as every software device in no card's folder.
  void addRxe(const std::string& name, const std::string& interface) const {
    const std::string folder = "sys/devices/virtual/infiniband/" + name;
    std::filesystem::create_directories(root_ / folder);
    std::ofstream(root_ / folder / "parent") << interface << "\n";
    link("class/infiniband/" + name, folder);
  }
  // An interface on others: VLANs, bonds.
  void addUpper(const std::string& name, const std::vector<std::string>& lower) const {
    std::filesystem::create_directories(root_ / (virtual_net_ + name));
    link("class/net/" + name, virtual_net_ + name);
    for (const std::string& below : lower)
      link(virtual_net_ + name + "/lower_" + below, "class/net/" + below);
  }
  std::string placeOf(const std::string& name) const {
    const PciPlace place = pciPlaceInSysfs(name, true, root_);
    return place.path.empty() ? "" : std::filesystem::path(place.path).lexically_relative(root_).string();
  }

  const std::string virtual_net_ = "sys/devices/virtual/net/";
  const std::string first_ = "sys/devices/pci0000:20/0000:20:00.0/0000:21:00.0";
  const std::string second_ = "sys/devices/pci0000:20/0000:20:00.0/0000:21:00.1";
  const std::filesystem::path root_ = std::filesystem::canonical(std::filesystem::temp_directory_path()) /
                                      ("place" + std::to_string(getpid()));
};

TEST_F(PciPlaceInSysfs, OfACardIsWhatTheDeviceLinkSays) {
  std::filesystem::create_directories(root_ / second_ / "infiniband/mlx5_1");
  link("class/infiniband/mlx5_1", second_ + "/infiniband/mlx5_1");
  link(second_ + "/infiniband/mlx5_1/device", second_);
  const PciPlace place = pciPlaceInSysfs("mlx5_1", true, root_);
  EXPECT_EQ(place.path, root_ / second_);
  EXPECT_EQ(place.function0_path, root_ / first_);
  EXPECT_FALSE(place.software);
}

TEST_F(PciPlaceInSysfs, OfSoftRoceIsTheCardOfItsInterface) {
  addRxe("rxe0", "eth0"), addRxe("rxe1", "eth1");
  EXPECT_EQ(placeOf("rxe0"), first_);
  EXPECT_EQ(placeOf("rxe1"), second_);
  EXPECT_EQ(pciPlaceInSysfs("rxe1", true, root_).function0_path, root_ / first_);
  EXPECT_TRUE(pciPlaceInSysfs("rxe0", true, root_).software);
}

TEST_F(PciPlaceInSysfs, OfSoftIwarpIsToldByItsGidTable) {
  const std::string table = "sys/devices/virtual/infiniband/siw0/ports/1/gid_attrs/ndevs";
  std::filesystem::create_directories(root_ / table);
  std::ofstream(root_ / table / "0") << "eth1\n";
  link("class/infiniband/siw0", "sys/devices/virtual/infiniband/siw0");
  EXPECT_EQ(placeOf("siw0"), second_);
}

TEST_F(PciPlaceInSysfs, IsLookedForBelowAVlanButNotBelowABond) {
  addUpper("eth1.100", {"eth1"}), addUpper("bond0", {"eth0", "eth1"}), addUpper("loop", {"loop"});
  addRxe("rxe0", "eth1.100"), addRxe("rxe1", "bond0"), addRxe("rxe2", "loop");
  EXPECT_EQ(placeOf("rxe0"), second_);
  EXPECT_EQ(placeOf("rxe1"), "");
  EXPECT_EQ(placeOf("rxe2"), "");
}

TEST_F(PciPlaceInSysfs, OfAVethIsNone) {
  addRxe("rxe0", "veth0"), addRxe("rxe1", "gone");
  EXPECT_EQ(placeOf("rxe0"), "");
  EXPECT_TRUE(pciPlaceInSysfs("rxe0", true, root_).software);
  EXPECT_EQ(placeOf("rxe1"), "");
  EXPECT_EQ(placeOf("no-such-device"), "");
}

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
