// getProperties: every field of every version, in a struct that held something else before.
#include <set>

#include "api.h"

namespace railwise::test {
namespace {

template <typename A>
class PropertiesTest : public ApiTest<A> {};
TYPED_TEST_SUITE(PropertiesTest, AllVersions, VersionName);

template <typename A>
typename A::Properties propertiesOver(int device, int garbage) {
  typename A::Properties properties;
  std::memset(&properties, garbage, sizeof properties);
  EXPECT_EQ(A::table().getProperties(device, &properties), ncclSuccess);
  return properties;
}

// What the properties of the device that is called so say, on the software device that of the next test.
RealDevice expected(const std::string& name) {
  for (const RealDevice& device : realDevices())
    if (device.name == name) return device;
  return {"soft0", 1, false, 0xaabbccddeeff0011, 400000};
}

TYPED_TEST(PropertiesTest, EveryFieldIsWritten) {
  Session<TypeParam> session("speed=400000,guid=aa:bb:cc:dd:ee:ff:00:11");
  for (const int garbage : {0x00, 0xff, 0xa5}) {
    const auto properties = propertiesOver<TypeParam>(0, garbage);
    const RealDevice device = expected(properties.name);
    EXPECT_EQ(properties.name, device.name);
    EXPECT_EQ(properties.pciPath, nullptr);
    EXPECT_EQ(be64toh(properties.guid), device.guid);
    EXPECT_EQ(properties.ptrSupport, NCCL_PTR_HOST);
    EXPECT_EQ(properties.speed, device.mbps);
    EXPECT_EQ(properties.port, 1);
    EXPECT_EQ(properties.latency, 0);
    EXPECT_GT(properties.maxComms, 0);
    EXPECT_LT(properties.maxComms, 1 << 24);
    EXPECT_EQ(properties.maxRecvs, 8);
    if constexpr (requires { properties.netDeviceType; }) {
      EXPECT_EQ(properties.netDeviceType, NCCL_NET_DEVICE_HOST);
      EXPECT_EQ(properties.netDeviceVersion, NCCL_NET_DEVICE_INVALID_VERSION);
    }
    if constexpr (requires { properties.regIsGlobal; }) EXPECT_EQ(properties.regIsGlobal, 1);
    if constexpr (requires { properties.vProps; }) {
      EXPECT_EQ(properties.forceFlush, 0);
      EXPECT_EQ(properties.vProps.ndevs, 1);
      EXPECT_EQ(properties.vProps.devs[0], 0);
      // rxe of Linux 6.1 takes 256 MiB.
      if (!onRealDevices() || properties.maxP2pBytes != size_t{256} << 20)
        EXPECT_EQ(properties.maxP2pBytes, size_t{1} << 30);
      EXPECT_EQ(properties.maxCollBytes, properties.maxP2pBytes);
    }
    if constexpr (requires { properties.maxMultiRequestSize; }) EXPECT_EQ(properties.maxMultiRequestSize, 1);
    if constexpr (requires { properties.railId; }) {
      EXPECT_EQ(properties.railId, NCCL_NET_ID_UNDEF);
      EXPECT_EQ(properties.planeId, NCCL_NET_ID_UNDEF);
    }
  }
}

TYPED_TEST(PropertiesTest, DevicesAreInPciOrderWithUniqueNames) {
  RAILWISE_NEEDS_SOFTWARE_DEVICE("devices at PCI addresses of the test's choice");
  // Paths that exist on no machine: the function-0 rule then applies as text.
  Session<TypeParam> session(
      "name=c,pci=/sys/devices/pci0000:80/0000:80:01.0;name=a,pci=/sys/devices/pci0000:00/0000:0a:00.1;"
      "name=none;name=b,pci=/sys/devices/pci0000:00/0000:0a:00.0");
  int count = 0;
  ASSERT_EQ(TypeParam::table().devices(&count), ncclSuccess);
  ASSERT_EQ(count, 4);
  std::string order;
  std::set<std::string> names;
  for (int device = 0; device < count; ++device) {
    const auto properties = propertiesOver<TypeParam>(device, 0xee);
    order += std::string(properties.name) + " ";
    names.insert(properties.name);
    if constexpr (requires { properties.vProps; }) EXPECT_EQ(properties.vProps.devs[0], device);
  }
  EXPECT_EQ(order, "b a c none ");
  EXPECT_EQ(names.size(), 4U);
  // Two functions of one card: one PCI device for NCCL, told apart by the port.
  const auto b = propertiesOver<TypeParam>(0, 0);
  const auto a = propertiesOver<TypeParam>(1, 0);
  EXPECT_STREQ(b.pciPath, a.pciPath);
  EXPECT_STREQ(a.pciPath, "/sys/devices/pci0000:00/0000:0a:00.0");
  EXPECT_EQ(b.port, 1);
  EXPECT_EQ(a.port, 2);
}

TYPED_TEST(PropertiesTest, NcclIbHcaChooses) {
  RAILWISE_NEEDS_DEVICES(2);
  const std::vector<std::string> names = deviceNames(4);
  const Setting setting("NCCL_IB_HCA", onRealDevices() ? "=" + names[1] + ":1" : "^soft0,soft2:1");
  Session<TypeParam> session("count=4");
  int count = 0;
  ASSERT_EQ(TypeParam::table().devices(&count), ncclSuccess);
  ASSERT_EQ(count, onRealDevices() ? 1 : 2);
  EXPECT_EQ(propertiesOver<TypeParam>(0, 0).name, names[1]);
  if (count > 1) EXPECT_EQ(propertiesOver<TypeParam>(1, 0).name, names[3]);
}

TYPED_TEST(PropertiesTest, NcclIbHcaNamesRailAndPlane) {
  RAILWISE_NEEDS_DEVICES(2);
  const std::vector<std::string> names = deviceNames(2);
  const Setting setting("NCCL_IB_HCA", "=" + names[0] + ":1:3:2," + names[1] + "::4");
  Session<TypeParam> session("count=2");
  for (int device = 0; device < 2; ++device) {
    const auto properties = propertiesOver<TypeParam>(device, 0xee);
    const bool first = properties.name == names[0];
    EXPECT_TRUE(first || properties.name == names[1]) << properties.name;
    if constexpr (requires { properties.railId; }) {
      EXPECT_EQ(properties.railId, first ? 3 : 4);
      EXPECT_EQ(properties.planeId, first ? 2 : NCCL_NET_ID_UNDEF);
    }
  }
}

TYPED_TEST(PropertiesTest, StringsOutliveTheCommunicator) {
  const char* name = nullptr;
  {
    Session<TypeParam> session;
    name = propertiesOver<TypeParam>(0, 0).name;
  }
  EXPECT_EQ(name, expected(name).name);
}

}  // namespace
}  // namespace railwise::test
