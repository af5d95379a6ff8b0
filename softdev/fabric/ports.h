// The ports of a fabric (PortRecord of segment.h). A port is found by its GUID. The first context that opens
// a port makes its record.
#pragma once

#include <span>

#include "softdev/config/config.h"
#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// `opened` receives the index of the record. The index is the LID minus one, and equal in every process. If
// no live context has the port open, `config` resets the port; otherwise the port keeps its state. ENOMEM:
// the table is full. EADDRINUSE, logged: another process uses the fabric with a conflicting configuration.
Status openPort(Fabric& fabric, const DeviceConfig& config, const std::string& host, uint32_t number,
                uint32_t* opened);

// Finds the port with this GID, or null. `type` is a GidType or kAnyGidType.
constexpr uint32_t kAnyGidType = ~0U;
const PortRecord* findGid(const Segment& segment, const uint8_t (&raw)[16], uint32_t type);
bool hasGid(const PortRecord& port, const uint8_t (&raw)[16], uint32_t type);

// The addresses by which the connection manager knows the port: its GIDs, or on iWARP the addresses of its
// interface.
std::span<const Gid> addressesOf(const PortRecord& port);
const PortRecord* findAddress(const Segment& segment, const uint8_t (&raw)[16]);  // null: no port has it

inline bool active(const PortRecord& port) {
  return port.state.load(std::memory_order_acquire) == IBV_PORT_ACTIVE;
}
inline uint32_t lidOf(const Segment& segment, const PortRecord& port) {
  return static_cast<uint32_t>(&port - segment.ports) + 1;
}

}  // namespace railwise::softdev
