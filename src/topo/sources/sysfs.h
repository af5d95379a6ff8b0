// Makes, from a /sys tree, the XML that NCCL would have. It repeats NCCL's own walk for each rank (one rank
// per GPU); options stand for what NVML and the network plugin would add. Then it fuses the documents of all
// ranks (topo.cc of NCCL 2.30.7: ncclTopoGetSystem). Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "sysfs/file_tree.h"
#include "topo/document/xml.h"
#include "topo/machine/fusion.h"
#include "topo/machine/machine.h"
#include "topo/settings.h"
#include "topo/sources/cpu_identity.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::topo {

struct SysfsOptions {
  Detection detection;  // of GPUs that no vendor knows; speed of NICs that do not report theirs
  // Null: the processor of the recorded tree, or this machine's if the tree has none.
  std::optional<CpuIdentity> cpu;
  // NCCL hashes host name and boot id; it only matters whether two hashes are equal.
  std::string host_hash = "0x1";
  // The devices of the network plugin, in its order. Null: the devices of /sys/class/infiniband.
  std::optional<std::vector<NetDevice>> nets;
  // What the vendors' libraries say of the GPUs. Null: what the tree has recorded, if anything. Without any
  // GPU of a vendor in it, that vendor's GPUs are assumed to be as `detection` says.
  GpuAnswers gpu_answers;
  bool gdr = true;  // GPUDirect RDMA is supported by GPUs and NICs
  // A <cpu> in the topology file that has no CPU mask gets the machine's mask, as in NCCL. False: it gets an
  // empty mask.
  bool file_cpus_get_masks = true;
  // The model has the vendor and device ids of GPUs and NICs. Without them no path and no bandwidth is
  // another: only those of switches say how NCCL takes them.
  bool endpoint_ids = true;
};

// `topology_file`: the file that NCCL_TOPO_FILE names, to which the machine's devices are added. `remarks`
// (may be null) receives, in words for people, what was assumed or left out. `assumed` (may be null) receives
// which facts of the NICs are assumed. An error if NCCL's init would fail, or if the tree has no GPU.
Outcome<XmlDocument> readSysfs(const sysfs::FileTree& tree, const std::optional<XmlDocument>& topology_file,
                               const Settings& settings, const SysfsOptions& options,
                               std::vector<std::string>* remarks, Assumed* assumed = nullptr);

// The one place that opens a machine: from a /sys tree, from a topology file, or from a file over a tree, as
// NCCL does at its init. The command, the C and C++ APIs, the doctor and the plugin call it, so that one
// source is one machine with one list of assumptions (Detection, and the machine's remarks). Thread-safe.

struct MachineInputs {
  const sysfs::FileTree* tree = nullptr;  // null: the topology file alone
  const Settings& settings;
  SysfsOptions options = {};                   // of a file alone: only the detection counts
  const std::string* topology_file = nullptr;  // its path; null: there is no topology file
  const std::string* topology_text = nullptr;  // its text, if the caller has read it; null: it is read
  std::optional<XmlDocument> document = {};    // the topology file, if the caller has parsed it
  std::string name = {};  // of a machine that is a file alone; "": the last part of the file's path
  bool remarks = true;    // false: the machine of a tree has none, and what only they need is not read
};

// The machine's remarks say what was assumed. An error if NCCL's init would fail. The error's code is
// kNoDevice if the tree or the file is the reason (it has no GPU).
Outcome<Machine> loadMachine(MachineInputs inputs);

}  // namespace railwise::topo
