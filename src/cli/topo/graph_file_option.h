// The graph file that a command takes its graphs from, as NCCL does with NCCL_GRAPH_FILE.
#pragma once

#include <optional>
#include <string>

#include "cli/options/options.h"
#include "topo/search/graph_file.h"

namespace railwise::cli {

// --graph-file FILE.
Option graphFileOption(std::string* field);

// Reads the file that the option names, else the file of NCCL_GRAPH_FILE; without either `file` stays empty.
// False: the file cannot be read, and the reason was reported to the user.
bool readGraphFile(const char* command, const std::string& option, bool quiet,
                   std::optional<topo::GraphFile>& file);

}  // namespace railwise::cli
