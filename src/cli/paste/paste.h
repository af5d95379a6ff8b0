// A FILE that is no topology file: what it is, and what can be said from it.
#pragma once

#include <optional>
#include <string>

namespace railwise::cli {

// Is the file the output of a program that the doctor reads (nvidia-smi topo -m, ibstat, ...), or a log? Then
// prints what it tells, or which command reads it, and returns the exit status. Nothing: another file, or
// none.
std::optional<int> reportPaste(const char* command, const std::string& file);

}  // namespace railwise::cli
