// The /sys of a software machine in memory, for the subcommands that read a machine and know no software
// device.
#pragma once

#include <memory>
#include <string>

#include "topo/sources/file_tree.h"

namespace railwise::tools {

// `machine` is what --machine names (cli/device/machine.h); `host` one of its hosts, "" the one that a
// process would play. Null: the reason was said.
std::unique_ptr<topo::FileTree> deviceRoot(const char* command, const std::string& machine,
                                           const std::string& host);

}  // namespace railwise::tools
