#include "verbs/port.h"

#include "software_device.h"
#include "tests/ok.h"

namespace railwise::verbs {
namespace {

TEST(LinkSpeed, IsTheProductOfLaneSpeedAndWidth) {
  EXPECT_EQ(linkSpeedMbps(1, 1), 2500);       // SDR x1
  EXPECT_EQ(linkSpeedMbps(16, 2), 56000);     // FDR x4
  EXPECT_EQ(linkSpeedMbps(32, 2), 100000);    // EDR x4
  EXPECT_EQ(linkSpeedMbps(64, 16), 100000);   // HDR x2
  EXPECT_EQ(linkSpeedMbps(128, 2), 400000);   // NDR x4
  EXPECT_EQ(linkSpeedMbps(128, 8), 1200000);  // NDR x12
  EXPECT_EQ(linkSpeedMbps(256, 2), 800000);   // XDR x4
  EXPECT_EQ(linkSpeedMbps(3, 2), 0);
  EXPECT_EQ(linkSpeedMbps(128, 3), 0);
}

TEST(QueryPort, ReportsWhatTheDeviceIsConfiguredTo) {
  const test::SoftwareDevice device(
      "speed=100000,link=ib,mtu=2048,max_msg=65536;speed=25000,port_state=down");
  const Context first = device.open(0);
  const Result<Port> port = queryPort(first.get(), 1);
  ASSERT_OK(port);
  EXPECT_TRUE(port->active);
  EXPECT_FALSE(port->ethernet);
  EXPECT_EQ(port->speed_mbps, 100000);
  EXPECT_EQ(port->mtu, IBV_MTU_2048);
  EXPECT_EQ(port->max_message_bytes, 65536U);
  EXPECT_NE(port->lid, 0);
  const Context second = device.open(1);
  const Result<Port> down = queryPort(second.get(), 1);
  ASSERT_OK(down);
  EXPECT_FALSE(down->active);
  EXPECT_TRUE(down->ethernet);
  EXPECT_EQ(down->speed_mbps, 25000);
}

TEST(QueryPort, AnXdrPortIsFasterThanTheOldFieldSays) {
  const test::SoftwareDevice device("speed=800000,width=4,link=ib");
  const Context context = device.open();
  const Result<Port> port = queryPort(context.get(), 1);
  ASSERT_OK(port);
  EXPECT_EQ(port->speed_mbps, 800000) << "active_speed says NDR, active_speed_ex XDR";
}

TEST(QueryPort, APortThatDoesNotExistIsAnError) {
  const test::SoftwareDevice device;
  const Context context = device.open();
  EXPECT_EQ(queryPort(context.get(), 9).status().code, Code::kSystem);
}

PciPlace placeOf(const std::string& pci) {
  const test::SoftwareDevice device(pci.empty() ? "" : "pci=" + pci);
  return pciPlace(device.open()->device);
}

TEST(PciPlace, PortsOfACardAreFunctionZero) {
  const PciPlace place = placeOf("/sys/devices/pci0000:3a/0000:3b:00.1");
  EXPECT_EQ(place.path, "/sys/devices/pci0000:3a/0000:3b:00.1");
  EXPECT_EQ(place.function0_path, "/sys/devices/pci0000:3a/0000:3b:00.0");
  EXPECT_FALSE(place.software);
}

TEST(PciPlace, ADeviceOutsidePciHasNone) { EXPECT_EQ(placeOf("").path, ""); }

}  // namespace
}  // namespace railwise::verbs
