// The command line's first word: `railwise COMMAND`.
#pragma once

#include "cli/options/options.h"

namespace railwise::tools {

// The whole command line, without the executable. The answer is the exit status of the command.
int runCommand(Args args);

}  // namespace railwise::tools
