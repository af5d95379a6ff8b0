// Changes to ports and devices that a fabric's processes have open: by fault rules, and at a command. Each
// tells the contexts concerned by an asynchronous event and makes connections look at their path again: those
// that lost it retry, and fail or go on as a wire's would. The caller holds no shared lock.
#pragma once

#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// `port`: index of its record. Nothing happens when it is in that state.
void setPortState(Fabric& fabric, uint32_t port, bool up);
// Entry `index` of its GID table, made longer where needed; all 0 empties it. `type`: a GidType, or
// kKeepGidType.
void setPortGid(Fabric& fabric, uint32_t port, uint32_t index, const uint8_t (&raw)[16], uint32_t type);
void setPortSpeed(Fabric& fabric, uint32_t port, uint32_t mbps);
// Fails the device, as `host` names it: every context that has it open is dead (its verbs fail with EIO), its
// queue pairs are in ERR. Contexts opened later find it restarted.
void failDevice(Fabric& fabric, const char* host, const char* device);

}  // namespace railwise::softdev
