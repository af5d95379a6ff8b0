// The time model: a paced port delivers no faster than its speed, its PCIe link and its latency allow. No
// thread waits. Each resource on the path (the sender's PCIe link and port, the receiver's port and PCIe
// link) has a clock that says when it is free again. A completion carries the time from which polling may see
// it. Bytes may be visible earlier. Times are CLOCK_MONOTONIC in ns, which all processes of the fabric share.
#pragma once

#include <cstdint>

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// When a transfer between two ports arrives, and when its sender learns of that.
struct Passage {
  uint64_t arrived_ns = 0;
  uint64_t acknowledged_ns = 0;
};

// Books a transfer of `bytes` from `from` to `to` that starts at `begin_ns`. Ports that are not paced cost no
// time.
Passage travel(Segment& segment, PortRecord& from, PortRecord& to, uint64_t bytes, uint64_t begin_ns);

}  // namespace railwise::softdev
