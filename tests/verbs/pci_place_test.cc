#include "verbs/pci_place.h"

#include "software_device.h"

namespace railwise::verbs {
namespace {

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
