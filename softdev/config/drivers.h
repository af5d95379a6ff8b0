// What the drivers of real RDMA cards grant, so that a software device can be as narrow as such a card
// (`like=bnxt_re`): base/nic_drivers.h has the values and their sources. Any thread.
#pragma once

#include <string_view>

#include "softdev/config/description.h"

namespace railwise::softdev {

// The drivers that makeLike() knows.
#define RAILWISE_SOFTDEV_DRIVERS "bnxt_re, hns, ionic or irdma"

// Gives a device the limits and PCI ids of a card with this driver. False: there is no such driver here.
bool makeLike(std::string_view driver, DeviceConfig& device);

}  // namespace railwise::softdev
