// Restores a hidden PCIe tree. On a VM every GPU and NIC seems to be connected directly to the CPU, so NCCL
// considers all NICs equally far, and too far for GPUDirect RDMA. From such a flat /sys the generator makes a
// topology file that describes the host: on each NUMA node one synthetic switch ("bridge") for each group of
// GPUs and NICs. The generator has no built-in machines. Its remarks say what it decided and why.
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/outcome.h"
#include "sysfs/file_tree.h"
#include "topo/sources/generate/flat_machine.h"

namespace railwise::topo {

// Returns the text of the file, with <system version="2"> for AMD's GPUs. `remarks` (may be null) receives,
// in words for people, what was decided and what could not be decided. Errors: no GPU or no NIC, GPUs of two
// vendors, a PCIe tree that is not flat, devices that cannot be placed, a table with mistakes; with the code
// kInvalidArgument a selection that is misspelt or matches nothing.
Outcome<std::string> generateTopology(const sysfs::FileTree& tree, const GenerateOptions& options,
                                      std::vector<std::string>* remarks);

}  // namespace railwise::topo
