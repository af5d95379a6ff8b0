// Records the part of a machine's /sys that the topology library reads, so that the machine can be analysed
// elsewhere: the PCI tree (classes, ids, links, NUMA nodes), RDMA and network devices, the CPUs of the NUMA
// nodes, Broadcom's switch links, the processor's identity, the answers of the GPUs' libraries, and the
// versions of kernel, drivers and NIC firmware. It records GUIDs, but no serial numbers, no MAC or IP
// addresses, no host name, and no folder above the PCI root buses (on a VM such a folder names the instance).
// Thread-safe.
#pragma once

#include "base/outcome.h"
#include "sysfs/file_tree.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::topo {

struct RecordOptions {
  // What the vendors' libraries say of the GPUs (askForGpus()), without UUIDs; null: it is not recorded.
  GpuAnswers gpu_answers;
  // Replaces the GUIDs by 1, 2, ... Equal GUIDs stay equal, and their order stays.
  bool anonymise = false;
};

// Returns the recorded tree; writeArchive() of tar_archive.h packs it. readSysfs and generateTopology return
// the same for the recorded tree as for `live`. An error if there is no PCI device to record.
Outcome<sysfs::MemoryTree> recordTree(const sysfs::FileTree& live, const RecordOptions& options);

}  // namespace railwise::topo
