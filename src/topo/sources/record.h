// Records of a machine's /sys what the topology library reads, so that the answer can be found elsewhere: the
// PCI tree (classes, ids, links, NUMA nodes), RDMA and network devices, the NUMA nodes' CPUs, Broadcom's
// switch links, and which CPU it is. No serial numbers, no MAC or IP addresses, no host name, no folder above
// the PCI root buses (a VM's names its instance there); GUIDs only. Thread-safe.
#pragma once

#include "topo/outcome.h"
#include "topo/sources/file_tree.h"

namespace railwise::topo {

struct RecordOptions {
  // Replaces the GUIDs by 1, 2, ...: equal ones stay equal, their order stays.
  bool anonymise = false;
};

// The recorded tree; writeArchive() of tar_archive.h packs it. readSysfs and generateTopology answer the same
// for it as for `live`. An error: there is no PCI device to record.
Outcome<MemoryTree> recordTree(const FileTree& live, const RecordOptions& options);

}  // namespace railwise::topo
