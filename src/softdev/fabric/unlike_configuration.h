// Two processes on one fabric whose configurations cannot both be true: one device with unlike addresses, or
// one address of two devices. What either sent would reach the wrong port, or none.
#pragma once

#include "softdev/config/config.h"
#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// Success, or EADDRINUSE after one WARN that names fabric, process, difference and remedy. `index`: the
// port's record (ports.h). Needs the table lock.
Status checkConfiguration(const Fabric& fabric, const DeviceConfig& config, uint32_t number, uint32_t index);

}  // namespace railwise::softdev
