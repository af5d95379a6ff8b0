// Restoring a hidden PCIe tree: on a VM every GPU and NIC seems to hang on the CPU, so NCCL takes each NIC
// for equally far and GPUDirect RDMA for too far. From such a flat /sys this makes the topology file that
// says what the host has: per NUMA node one synthetic switch ("bridge") for each group of GPUs and NICs.
// The generator has no machine built in. Its remarks say what it has decided, and why. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/outcome.h"
#include "topo/sources/file_tree.h"
#include "topo/sources/generate/options.h"

namespace railwise::topo {

// The text of the file, <system version="2"> for AMD's GPUs. remarks: what was decided and what could not
// be, for people; may be null. An error: no GPU or no NIC, GPUs of two makers, a PCIe tree that is not flat,
// devices that cannot be placed, a selection that matches nothing, a table with mistakes.
Outcome<std::string> generateTopology(const FileTree& tree, const GenerateOptions& options,
                                      std::vector<std::string>* remarks);

}  // namespace railwise::topo
