// A command that consists of subcommands, such as `railwise topo`.
#pragma once

#include <span>
#include <string>

#include "cli/options/help_page.h"
#include "cli/options/options.h"

namespace railwise::cli {

// Runs the subcommand that args[0] names. --help lists the subcommands, with `last` as the last line. If
// there is no such subcommand, prints which ones exist and which one was perhaps meant, and returns
// kExitUsage. `group` is the command's name for messages, e.g. "topo".
int runSubcommand(const char* group, std::span<const Subcommand> subcommands, const char* last, Args args);

}  // namespace railwise::cli
