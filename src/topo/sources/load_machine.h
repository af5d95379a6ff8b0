// The one place that opens a machine: from a /sys tree, from a topology file, or from a file over a tree, as
// NCCL does at its init. The command, the C and C++ APIs, the doctor and the plugin call it, so that one
// source is one machine with one list of assumptions (Detection, and the machine's remarks). Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/outcome.h"
#include "sysfs/file_tree.h"
#include "topo/machine/machine.h"
#include "topo/sources/sysfs.h"

namespace railwise::topo {

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
