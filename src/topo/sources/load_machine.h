// Makes a Machine from a /sys tree, with or without a topology file over it, as NCCL does at its init. For a
// topology file alone see machine/load.h. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/outcome.h"
#include "sysfs/file_tree.h"
#include "topo/machine/machine.h"
#include "topo/sources/sysfs.h"

namespace railwise::topo {

struct MachineInputs {
  const sysfs::FileTree& tree;
  const Settings& settings;
  SysfsOptions options = {};
  const std::string* topology_file = nullptr;  // the path in NCCL_TOPO_FILE; null: there is no topology file
  std::optional<XmlDocument> document = {};    // the topology file, if the caller has read it
  bool remarks = true;  // false: the machine has none, and what only they need is not read
};

// The machine's remarks say what was assumed. An error if NCCL's init would fail. The error's code is
// kNoDevice if the tree is the reason (a tree without a GPU).
Outcome<Machine> loadMachine(MachineInputs inputs);

}  // namespace railwise::topo
