// A command of commands, such as `railwise topo`.
#pragma once

#include <span>
#include <string>

#include "cli/options/options.h"

namespace railwise::tools {

struct Subcommand {
  const char* name;
  int (*run)(Args);
  const char* text;  // of the help
};

// Runs the subcommand that args[0] names; --help lists them, with `last` as the last line. kExitUsage, with
// what is there and what was perhaps meant, when there is none. `group`: "topo", for messages.
int runSubcommand(const char* group, std::span<const Subcommand> subcommands, const char* last, Args args);

}  // namespace railwise::tools
