// What differs between two machines, or between two views of one (with and without a file, NCCL 2.30
// and 2.28): devices, links, paths and choices. GPUs and NICs are matched by PCI address and name, then by
// their number. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/machine/machine.h"

namespace railwise::topo {

// One thing that differs. A side that lacks it has an empty text.
struct Difference {
  std::string kind;  // "device", "numa", "link", "path", "nic", "gpudirect", "p2p", "pxn", "domain"
  std::string what;  // ids: "GPU/0", "GPU/0 -> NET/1"; the left machine's where both have the thing
  std::string left;
  std::string right;
};

std::vector<Difference> diff(const Machine& left, const Machine& right);

// In words, by kind; many pairs that say the same are one line. One line that says so when nothing differs.
std::string diffText(const Machine& left, const Machine& right, const std::vector<Difference>& differences);
std::string diffJson(const Machine& left, const Machine& right, const std::vector<Difference>& differences);

}  // namespace railwise::topo
