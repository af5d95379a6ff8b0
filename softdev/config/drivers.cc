#include "softdev/config/drivers.h"

#include <algorithm>

#include "base/nic_drivers.h"
#include "base/pci.h"

namespace railwise::softdev {

bool makeLike(std::string_view driver, DeviceConfig& device) {
  const auto* const found = std::ranges::find(kNicDrivers, driver, &NicDriver::name);
  if (found == std::end(kNicDrivers) || found->limits.part == 0) return false;
  device.vendor_id = pci::numberOf(found->vendor);
  device.part_id = found->limits.part;
  device.hca_type = found->name;
  device.max_sge = found->limits.max_sge;
  device.max_inline_bytes = found->limits.max_inline_bytes;
  device.atomics = found->limits.atomics;
  device.ece = false;
  return true;
}

}  // namespace railwise::softdev
