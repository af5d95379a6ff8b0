// The ports of a fabric (segment.h, PortRecord): found by GUID, made by the first context that opens them.
#pragma once

#include <span>

#include "softdev/config/config.h"
#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// `opened`: the record's index, which is the LID less one, the same for every process. `config` resets a
// port that no live context has open; any other port keeps its state. ENOMEM when the table is full;
// EADDRINUSE, logged, when another process has the fabric with an unlike configuration.
Status openPort(Fabric& fabric, const DeviceConfig& config, const std::string& host, uint32_t number,
                uint32_t* opened);

// The port with this GID, or null. `type` is a GidType, or kAnyGidType.
constexpr uint32_t kAnyGidType = ~0U;
const PortRecord* findGid(const Segment& segment, const uint8_t (&raw)[16], uint32_t type);
bool hasGid(const PortRecord& port, const uint8_t (&raw)[16], uint32_t type);

// The addresses by which the connection manager knows the port: its GIDs, of iWARP those of its interface.
std::span<const Gid> addressesOf(const PortRecord& port);
const PortRecord* findAddress(const Segment& segment, const uint8_t (&raw)[16]);  // null: nobody's

inline bool active(const PortRecord& port) {
  return port.state.load(std::memory_order_acquire) == IBV_PORT_ACTIVE;
}
inline uint32_t lidOf(const Segment& segment, const PortRecord& port) {
  return static_cast<uint32_t>(&port - segment.ports) + 1;
}

}  // namespace railwise::softdev
