// Detects two processes on one fabric whose configurations cannot both be true: one device with different
// addresses, or one address on two devices. What either process sent would reach the wrong port, or none.
#pragma once

#include "softdev/config/config.h"
#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// Success, or EADDRINUSE after one WARN with the fabric, the process, the difference and the remedy. `index`:
// the port's record (ports.h). The caller holds the table lock.
Status checkConfiguration(const Fabric& fabric, const DeviceConfig& config, uint32_t number, uint32_t index);

}  // namespace railwise::softdev
