#include <algorithm>

#include "doctor/checks/check.h"

namespace railwise::doctor {

std::vector<const RdmaPort*> Examination::usedPorts() const {
  std::vector<const RdmaPort*> used;
  for (const RdmaPort& port : ports)
    if (!port.left_out && !port.not_given) used.push_back(&port);
  return used;
}

bool Examination::simulated() const {
  return !ports.empty() &&
         std::all_of(ports.begin(), ports.end(), [](const RdmaPort& port) { return port.simulated; });
}

std::vector<Check> allChecks() {
  std::vector<Check> all;
  for (const auto family : {rdmaChecks, portChecks, addressChecks, pciChecks, gpuDirectChecks, topologyChecks,
                            containerChecks, ncclChecks}) {
    const std::span<const Check> checks = family();
    all.insert(all.end(), checks.begin(), checks.end());
  }
  return all;
}

}  // namespace railwise::doctor
