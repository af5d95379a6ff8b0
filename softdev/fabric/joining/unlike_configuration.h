// Detects processes on one fabric that should not have met. A fabric that a process names none and takes by
// default is for processes with its configuration. On a fabric that both name, their configurations must be
// able to be true together: one device with different addresses, or one address on two devices, would make
// what either process sends reach the wrong port, or none.
#pragma once

#include "softdev/config/config.h"
#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// Notes this process as the maker of the fabric. The caller has just created the segment.
void noteMaker(Segment& segment, const FabricChoice& choice);

// Success, or EADDRINUSE after a WARN with the maker, both configurations and the remedy, if the fabric was
// not chosen by its name and its maker has another configuration.
Status checkMaker(const Segment& segment, const FabricChoice& choice);

// Success, or EADDRINUSE after one WARN with the fabric, the process, the difference and the remedy. `index`:
// the port's record (ports.h). The caller holds the table lock.
Status checkConfiguration(const Fabric& fabric, const DeviceConfig& config, uint32_t number, uint32_t index);

}  // namespace railwise::softdev
