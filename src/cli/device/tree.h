// The /sys of a software machine's host as the kernel would show it: PCI tree, RDMA devices, network
// interfaces and NUMA nodes. `railwise topo --root`, NCCL and other programs read it. Values that only a
// running fabric knows (LIDs, port states after faults) have the values of the configuration. Plain values;
// thread-safe.
#pragma once

#include <string>

#include "base/outcome.h"
#include "softdev/config/config.h"
#include "sysfs/file_tree.h"

namespace railwise::cli {

sysfs::MemoryTree deviceTree(const softdev::HostConfig& host);

// True if `host` has a place in a PCI tree other than this computer's, so that programs need the host's own
// /sys.
bool hasTree(const softdev::HostConfig& host);

// Writes the tree into `folder`. The folder is made if it does not exist; otherwise it must be empty.
Outcome<void> writeTree(const sysfs::MemoryTree& tree, const std::string& folder);

}  // namespace railwise::cli
