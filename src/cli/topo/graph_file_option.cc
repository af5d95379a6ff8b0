#include "cli/topo/graph_file_option.h"

#include <cstdlib>

#include "cli/options/message.h"

namespace railwise::cli {

Option graphFileOption(std::string* field) {
  return textOption('g', "graph-file", "FILE", field, "take the graphs of FILE (default: NCCL_GRAPH_FILE)");
}

bool readGraphFile(const char* command, const std::string& option, bool quiet,
                   std::optional<topo::GraphFile>& file) {
  std::string path = option;
  if (path.empty()) {
    const char* const named = std::getenv("NCCL_GRAPH_FILE");
    if (named == nullptr) return true;
    path = named;
    if (!quiet) say("%s: note: with the graphs of NCCL_GRAPH_FILE=%s, as NCCL takes them", command, named);
  }
  auto read = topo::GraphFile::read(path);
  if (!read.ok()) return say("%s: %s", command, read.error().c_str()), false;
  file = std::move(*read);
  return true;
}

}  // namespace railwise::cli
