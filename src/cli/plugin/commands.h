// The subcommands that look at a plugin: `railwise devices` and `railwise config`.
#pragma once

#include "cli/options/options.h"

namespace railwise::tools {

// Each takes the arguments behind its name and answers the exit status of the command.
int devicesCommand(Args args);
int configCommand(Args args);

}  // namespace railwise::tools
