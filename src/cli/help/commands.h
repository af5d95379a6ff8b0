// railwise help and railwise completion.
#pragma once

#include <span>

#include "cli/options/help_page.h"

namespace railwise::cli {

// Prints the help, or the man page, of the command itself or of a subcommand. `top`: prints the help of the
// command itself; `commands`: all that it has, these two included.
int helpCommand(Args args, std::span<const Subcommand> commands, int (*top)());
// Prints the completion script of a shell.
int completionCommand(Args args, std::span<const Subcommand> commands);

}  // namespace railwise::cli
