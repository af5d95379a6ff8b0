// How a process is given chosen GPUs and no others: by environment variables, or by the device nodes that its
// cgroup may open.
#pragma once

#include <string>
#include <vector>

#include "base/outcome.h"
#include "sysfs/file_tree.h"
#include "topo/choice/gpu_table.h"

namespace railwise::cli {

// "CUDA_VISIBLE_DEVICES=2,3" and the variable that makes CUDA count as NVML does, or
// "ROCR_VISIBLE_DEVICES=...". `rows`: in the order in which the process shall see them. An error: they are of
// several hosts.
Outcome<std::string> environmentText(const topo::Machine& machine, const topo::GpuTable& table,
                                     const std::vector<int>& rows);

// The device nodes, one a line. `tree`: where the names of AMD's render nodes are looked up; null, or without
// them: they are assumed, and `notes` says so. An error: the rows are of several hosts.
Outcome<std::string> deviceNodesText(const topo::Machine& machine, const topo::GpuTable& table,
                                     const std::vector<int>& rows, const sysfs::FileTree* tree,
                                     std::vector<std::string>* notes);

}  // namespace railwise::cli
