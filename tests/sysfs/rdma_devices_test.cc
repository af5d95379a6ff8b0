#include "sysfs/rdma_devices.h"

#include <gtest/gtest.h>

namespace railwise::sysfs {
namespace {

constexpr char kFirst[] = "/sys/devices/pci0000:20/0000:20:00.0/0000:21:00.0";
constexpr char kSecond[] = "/sys/devices/pci0000:20/0000:20:00.0/0000:21:00.1";
const std::string kVirtual = "/sys/devices/virtual/";

// /sys as the kernel shows it: a card with two functions, the first virtio's, whose driver is one level
// below; interfaces on it, and on nothing.
class RdmaDevices : public testing::Test {
 protected:
  RdmaDevices() {
    addInterface("eth0", std::string(kFirst) + "/virtio3");
    addInterface("eth1", kSecond);
    addUpper("veth0", {});
  }

  void addInterface(const std::string& name, const std::string& device) {
    tree_.folder(device + "/net/" + name).link("/sys/class/net/" + name, device + "/net/" + name);
    tree_.link(device + "/net/" + name + "/device", device);
  }
  // rxe's device; as every software device in no card's folder.
  void addRxe(const std::string& name, const std::string& interface) {
    const std::string folder = kVirtual + "infiniband/" + name;
    tree_.file(folder + "/parent", interface + "\n").link("/sys/class/infiniband/" + name, folder);
  }
  // An interface on others: VLANs, bonds.
  void addUpper(const std::string& name, const std::vector<std::string>& lower) {
    const std::string folder = kVirtual + "net/" + name;
    tree_.folder(folder).link("/sys/class/net/" + name, folder);
    for (const std::string& below : lower) tree_.link(folder + "/lower_" + below, "/sys/class/net/" + below);
  }
  std::string pathOf(const std::string& name) const { return rdmaPlace(tree_, name).path; }

  MemoryTree tree_;
};

TEST_F(RdmaDevices, ACardIsWhereTheDeviceLinkLeads) {
  tree_.link(std::string(kSecond) + "/infiniband/mlx5_1/device", kSecond);
  tree_.link("/sys/class/infiniband/mlx5_1", std::string(kSecond) + "/infiniband/mlx5_1");
  const RdmaPlace place = rdmaPlace(tree_, "mlx5_1");
  EXPECT_EQ(place.path, kSecond);
  EXPECT_FALSE(place.software);
  EXPECT_EQ(cardOf(tree_, place.path, true), kFirst);
}

TEST_F(RdmaDevices, SoftRoceIsOnTheCardOfItsInterface) {
  addRxe("rxe0", "eth0"), addRxe("rxe1", "eth1");
  EXPECT_EQ(pathOf("rxe0"), kFirst);
  EXPECT_EQ(pathOf("rxe1"), kSecond);
  EXPECT_TRUE(rdmaPlace(tree_, "rxe0").software);
}

TEST_F(RdmaDevices, SoftIwarpIsToldByItsGidTable) {
  const std::string folder = kVirtual + "infiniband/siw0";
  tree_.file(folder + "/ports/1/gid_attrs/ndevs/0", "eth1\n").link("/sys/class/infiniband/siw0", folder);
  EXPECT_EQ(pathOf("siw0"), kSecond);
}

TEST_F(RdmaDevices, ThePlaceIsLookedForBelowAVlanButNotBelowABond) {
  addUpper("eth1.100", {"eth1"}), addUpper("bond0", {"eth0", "eth1"}), addUpper("loop", {"loop"});
  addRxe("rxe0", "eth1.100"), addRxe("rxe1", "bond0"), addRxe("rxe2", "loop");
  EXPECT_EQ(pathOf("rxe0"), kSecond);
  EXPECT_EQ(pathOf("rxe1"), "");
  EXPECT_EQ(pathOf("rxe2"), "");
}

TEST_F(RdmaDevices, AVethHasNoPlace) {
  addRxe("rxe0", "veth0"), addRxe("rxe1", "gone");
  EXPECT_EQ(pathOf("rxe0"), "");
  EXPECT_TRUE(rdmaPlace(tree_, "rxe0").software);
  EXPECT_EQ(pathOf("rxe1"), "");
  EXPECT_EQ(pathOf("no-such-device"), "");
  EXPECT_FALSE(rdmaPlace(tree_, "no-such-device").software);
}

TEST_F(RdmaDevices, AVirtualFunctionStandsForItsNicIfItIsMerged) {
  const std::string function = "/sys/devices/pci0000:20/0000:20:00.0/0000:21:01.3";
  tree_.link(function + "/physfn", kSecond);
  EXPECT_EQ(cardOf(tree_, function, true), kFirst);
  EXPECT_EQ(cardOf(tree_, function, false), function) << "there is no function 0 beside it";
}

TEST_F(RdmaDevices, APlaceThatIsNotInTheTreeHasAFunctionZero) {
  EXPECT_EQ(cardOf(tree_, "/sys/devices/pci0000:3a/0000:3b:00.1", true),
            "/sys/devices/pci0000:3a/0000:3b:00.0");
  EXPECT_EQ(cardOf(tree_, "/sys/devices/platform/x", true), "/sys/devices/platform/x");
  EXPECT_EQ(cardOf(tree_, "", true), "");
}

}  // namespace
}  // namespace railwise::sysfs
