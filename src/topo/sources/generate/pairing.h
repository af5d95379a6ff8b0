// Decides which GPUs and NICs share a synthetic bridge, by the pairing rules of flat_machine.h. Plain values;
// thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "topo/sources/generate/flat_machine.h"

namespace railwise::topo {

// The plan for one NUMA node.
struct NodePlan {
  std::vector<Bridge> bridges;
  std::vector<const FlatDevice*> loose;  // devices connected directly to the CPU
};

using Plan = std::map<int, NodePlan>;

// The plan contains pointers into `machine`.
Outcome<Plan> pairDevices(const FlatMachine& machine, const GenerateOptions& options,
                          std::vector<std::string>& remarks);

// How many GPUs share a switch if no option says so. 0: the GPUs are not behind PCIe switches.
//
// The number depends on how many lanes CPUs and switch chips had at the time. Up to PCIe Gen4, boards put two
// GPUs with their NICs behind one switch with one x16 uplink: DGX-1, DGX A100 and HGX A100, AWS p4d (two A100
// and a NIC per switch), Azure ND A100 v4. With Gen5, each GPU got a NIC of 400 Gb/s, which fills an x16
// link. So each GPU has a switch, or a part of a switch, with an uplink of its own: DGX H100, HGX H100 and
// B200, AWS p5, Nebius, Azure ND H100 v5, MI300X. A GPU with a single lane has its data path elsewhere
// (NVLink-C2C to Grace).
int gpusPerBridge(const FlatMachine& machine, std::vector<std::string>& remarks);

}  // namespace railwise::topo
