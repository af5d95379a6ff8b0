// Changes to ports and devices that processes of a fabric have open, made by fault rules or by a command.
// Each change raises an asynchronous event in the contexts concerned, and makes connections check their path
// again. A connection that has lost its path retries, and then fails or continues, as on a wire. The caller
// holds no shared lock.
#pragma once

#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// `port`: index of its record. Does nothing if the port is in that state already.
void setPortState(Fabric& fabric, uint32_t port, bool up);
// Sets entry `index` of the port's GID table, which grows if necessary. A GID of zeros empties the entry.
// `type`: a GidType, or kKeepGidType.
void setPortGid(Fabric& fabric, uint32_t port, uint32_t index, const uint8_t (&raw)[16], uint32_t type);
void setPortSpeed(Fabric& fabric, uint32_t port, uint32_t mbps);
// Fails `device` of `host`: every context that has it open is dead (its verbs fail with EIO), and its queue
// pairs are in ERR. Contexts opened later find the device restarted.
void failDevice(Fabric& fabric, const char* host, const char* device);

}  // namespace railwise::softdev
