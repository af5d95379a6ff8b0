// From a /sys tree to the XML that NCCL would have: its own walk for each rank (one rank per GPU), with what
// NVML and the net plugin add told by options, then the ranks' documents made one (topo.cc of NCCL 2.30.7:
// ncclTopoGetSystem). Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topo/document/xml.h"
#include "topo/machine/fusion.h"
#include "topo/machine/load.h"
#include "topo/settings.h"
#include "topo/sources/cpu_identity.h"
#include "topo/sources/file_tree.h"

namespace railwise::topo {

struct SysfsOptions {
  Detection detection;  // compute capability, NVSwitch links, speed of NICs that do not tell theirs
  std::optional<CpuIdentity> cpu;  // else the recorded tree's, else this machine's
  std::string host_hash = "0x1";   // NCCL hashes host name and boot id; only whether two are equal counts
  // The devices that the net plugin offers, in its order; else those of /sys/class/infiniband.
  std::optional<std::vector<NetDevice>> nets;
  bool gdr = true;  // GPUDirect RDMA is supported by GPUs and NICs
  // A <cpu> of the topology file without a mask gets that of the machine, as in NCCL. False: it gets an empty
  // one.
  bool file_cpus_get_masks = true;
};

// topology_file: what NCCL_TOPO_FILE names, over which the machine is laid. remarks: what was assumed or left
// out, for people; may be null. An error where NCCL's init would fail, and for a tree without a GPU.
Outcome<XmlDocument> readSysfs(const FileTree& tree, const std::optional<XmlDocument>& topology_file,
                               const Settings& settings, const SysfsOptions& options,
                               std::vector<std::string>* remarks);

}  // namespace railwise::topo
