// What a fault rule does to ports, devices and processes, besides failing the operation that it struck.
#pragma once

#include "softdev/faults/faults.h"

namespace railwise::softdev {

// The objects that a rule affects.
struct Target {
  Fabric& fabric;
  uint32_t context = 0;       // index; 0: none
  uint32_t port = kMaxPorts;  // index; kMaxPorts: none
  QpRecord* qp = nullptr;
  const QpRecord* peer = nullptr;
};

// Fills in the host, device, port, number and process of a queue pair, by which rules match it.
void describePlace(const Segment& segment, const QpRecord& qp, FaultSite* site);
// Carries out the action of the rule. False if the rule has no action of this kind. The caller holds no
// shared lock.
bool act(const Target& at, const FaultRule& rule);
// Puts the queue pair into ERR and raises the event, if the record still belongs to queue pair `number` and
// is not in RESET. The caller holds no shared lock.
void failQp(Fabric& fabric, QpRecord& qp, uint32_t number);

}  // namespace railwise::softdev
