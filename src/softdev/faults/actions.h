// What a fault rule does besides failing the operation that it struck: to ports, devices and processes.
#pragma once

#include "softdev/faults/faults.h"

namespace railwise::softdev {

// Where the effects of a rule fall.
struct Target {
  Fabric& fabric;
  uint32_t context = 0;       // index, 0: none
  uint32_t port = kMaxPorts;  // index
  QpRecord* qp = nullptr;
  const QpRecord* peer = nullptr;
};

// The names of a queue pair's place, by which rules find it.
void describePlace(const Segment& segment, const QpRecord& qp, FaultSite* site);
// False when the rule does nothing of the kind. The caller holds no shared lock.
bool act(const Target& at, const FaultRule& rule);
// To ERR, with the event, if the record is still that of the queue pair with the number, and not in RESET.
// The caller holds no shared lock.
void failQp(Fabric& fabric, QpRecord& qp, uint32_t number);

}  // namespace railwise::softdev
