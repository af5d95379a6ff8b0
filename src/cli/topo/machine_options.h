// The options of every subcommand that reads a machine (topo show, paths, diff, explain), and the machine
// they name: a topology file, a /sys tree, or a file laid over a tree as NCCL lays NCCL_TOPO_FILE over the
// machine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "topo/machine/load.h"
#include "topo/sources/file_tree.h"

namespace railwise::tools {

struct MachineOptions {
  std::string root;      // folder or .tar.gz; empty: none given
  std::string software;  // a software machine; empty: none given
  std::string host;      // of it
  topo::NcclVersion nccl = topo::NcclVersion::k2_30;
  topo::Detection detection;
  std::string cpu;
  bool xgmi_as_nvlink = false;
  bool net_ib = false;
  bool quiet = false;
  bool say_remarks = true;  // false: the output has them itself

  // The machine is another one than this computer.
  bool elsewhere() const { return !root.empty() || !software.empty(); }
};

// Appends --root, --machine, --host, --nccl, --gpu-sm, --nvswitch-links, --nic-speed, --fuse-nics,
// --net-plugin, --cpu,
// --xgmi and --quiet.
void addMachineOptions(std::vector<Option>& table, MachineOptions& fields);

// The machine of `file` (empty: none), laid over --root or --machine when both are given; neither: this
// machine. Nothing: the reason was said. What was assumed is said on stderr, unless --quiet.
std::optional<topo::Machine> openMachine(const char* command, const std::string& file,
                                         const MachineOptions& options);

// The /sys tree below a folder or in a .tar.gz; empty: this machine's. Null: the reason was said.
std::unique_ptr<topo::FileTree> openRoot(const char* command, const std::string& root);

}  // namespace railwise::tools
