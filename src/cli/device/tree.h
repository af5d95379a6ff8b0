// The /sys of a software machine's host: PCI tree, RDMA devices, network interfaces and NUMA nodes, as the
// kernel would show them, for `railwise topo --root`, for NCCL and for anything else that reads it. Values
// that only a running fabric knows (LIDs, port states after faults) are those of the configuration. Plain
// values; thread-safe.
#pragma once

#include <string>

#include "softdev/config/config.h"
#include "topo/sources/file_tree.h"

namespace railwise::tools {

topo::MemoryTree deviceTree(const softdev::HostConfig& host);

// True when `host` has a place in a PCI tree that is not this computer's, so that programs want its /sys.
bool hasTree(const softdev::HostConfig& host);

// Writes the tree below `folder`, which is made, or has to be empty. "" or what went wrong, for people.
std::string writeTree(const topo::MemoryTree& tree, const std::string& folder);

}  // namespace railwise::tools
