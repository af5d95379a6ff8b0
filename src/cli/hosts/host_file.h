// The file of --hosts: one host per line. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"

namespace railwise::cli {

inline constexpr std::size_t kMaxHosts = 256;

// "#" begins a comment; what follows the first word of a line is left out ("node1 slots=8", as mpirun's files
// have it). More than `most` hosts are an error. An error names file, line and what to do.
Outcome<std::vector<std::string>> parseHostFile(std::string_view text, const std::string& file,
                                                std::size_t most = kMaxHosts);

// Is it a name that ssh takes: letters, digits, "." "-" "_" ":" and one "@", not beginning with "-"?
bool isHostName(std::string_view name);

// The name of this host, and whether a name means this host. Thread-safe as long as no thread changes the
// environment.

// RAILWISE_HOST, else the name of this computer.
std::string nameOfThisHost();
bool isThisHost(const std::string& host);

}  // namespace railwise::cli
