// The subcommands that show a plugin: `railwise devices` and `railwise config`.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// Each function takes the arguments after the subcommand's name and returns the exit status.
int devicesCommand(Args args);
int configCommand(Args args);

}  // namespace railwise::cli
