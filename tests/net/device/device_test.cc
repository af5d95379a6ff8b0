// Which ports become devices, in which order, with which rails and planes.
#include "net/device/device.h"

#include "software_device.h"
#include "tests/ok.h"

namespace railwise::net {
namespace {

constexpr const char* kThree =
    "name=c,pci=/sys/devices/pci0000:80/0000:80:01.0;name=a,pci=/sys/devices/pci0000:00/0000:0a:00.0,ports=2;"
    "name=b,pci=/sys/devices/pci0000:00/0000:0b:00.0";

// "NAME" or "NAME:RAIL:PLANE" of each device.
std::vector<std::string> discovered(const Config& change, const std::string& devices = kThree) {
  const test::SoftwareDevice device(devices);
  Config config = change;
  config.device = device.config().device;
  const Result<DeviceList> list = discoverDevices(config);
  std::vector<std::string> found;
  if (!list.ok()) return found;
  for (const auto& one : list->devices) {
    const DeviceProperties& properties = one->properties();
    found.push_back(properties.name);
    if (properties.rail >= 0 || properties.plane >= 0)
      found.back() += ":" + std::to_string(properties.rail) + ":" + std::to_string(properties.plane);
    EXPECT_EQ(one->rails().front().rail, properties.rail);
    EXPECT_EQ(one->rails().front().plane, properties.plane);
  }
  return found;
}

using Names = std::vector<std::string>;

TEST(DiscoverDevices, InPciOrderOrInThatOfVerbs) {
  EXPECT_EQ(discovered({}), (Names{"a", "a:2", "b", "c"}));
  Config config;
  config.ib_device_pci_order = 0;
  EXPECT_EQ(discovered(config), (Names{"c", "a", "a:2", "b"}));
}

TEST(DiscoverDevices, WhatTheSelectionNames) {
  Config config;
  config.ib_hca = "=a:2,c";
  EXPECT_EQ(discovered(config), (Names{"a:2", "c"}));
  config.ib_hca = "^a";
  EXPECT_EQ(discovered(config), (Names{"b", "c"}));
  config.ib_hca = "^=a:1,b,c";
  EXPECT_EQ(discovered(config), (Names{"a:2"}));
}

TEST(DiscoverDevices, WithTheRailsAndPlanesItNames) {
  Config config;
  config.ib_hca = "=a:1:0:1,a:2:1:2,c:::5";
  EXPECT_EQ(discovered(config), (Names{"a:0:1", "a:2:1:2", "c:-1:5"}));
  config.ib_hca = "a:1:3:16384";  // the number of fused devices
  EXPECT_EQ(discovered(config), (Names{"a:3:-1"}));
}

// An open device cannot be removed, and its events would be told.
TEST(DiscoverDevices, WhatIsNotUsedIsNotKeptOpen) {
  const test::SoftwareDevice device(kThree);
  Config config;
  config.device = device.config().device;
  config.ib_hca = "=a:2,c";
  const Result<DeviceList> list = discoverDevices(config);
  ASSERT_OK(list);
  ASSERT_EQ(list->hcas.size(), 2U);
  for (const auto& hca : list->hcas) EXPECT_STRNE(hca->name(), "b");
}

}  // namespace
}  // namespace railwise::net
