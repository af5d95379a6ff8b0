// Finds what differs between two machines, or between two views of one machine (with and without a file,
// under two releases of NCCL): devices, links, paths and choices. GPUs and NICs are matched by PCI address
// and name, then by their number. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/machine/machine.h"

namespace railwise::topo {

// One thing that differs. If one machine lacks the thing, its text is empty.
struct Difference {
  std::string kind;  // "device", "numa", "link", "path", "nic", "gpudirect", "p2p", "pxn", "domain"
  // Ids: "GPU/0", "GPU/0 -> NET/1"; if both machines have the thing, the ids of the left one.
  std::string what;
  std::string left;
  std::string right;
};

std::vector<Difference> diff(const Machine& left, const Machine& right);

// Describes the differences in words, sorted by kind. Pairs with equal differences share one line. If nothing
// differs, a line says so. Under two releases of NCCL, the rules that differ between them follow.
std::string diffText(const Machine& left, const Machine& right, const std::vector<Difference>& differences);
std::string diffJson(const Machine& left, const Machine& right, const std::vector<Difference>& differences);

}  // namespace railwise::topo
