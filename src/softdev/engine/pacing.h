// The time model: a paced port delivers no faster than its speed, its PCIe link and its latency allow.
// Nothing waits: each resource on the way (the sender's PCIe link and port, the receiver's port and PCIe
// link) has a clock of when it is free again, and a completion carries the time from which polling may see
// it. Bytes may be visible earlier. Clocks are CLOCK_MONOTONIC, ns, shared by all processes of the fabric.
#pragma once

#include <cstdint>

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// When a transfer between two ports arrives and when its sender knows.
struct Passage {
  uint64_t arrived_ns = 0;
  uint64_t acknowledged_ns = 0;
};

// Takes `bytes` from `from` to `to` that start now. Ports that are not paced cost nothing.
Passage travel(Segment& segment, PortRecord& from, PortRecord& to, uint64_t bytes);

}  // namespace railwise::softdev
