// railwise version: what this is, and with what it works.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// Takes the arguments behind its name and answers the exit status of the command.
int versionCommand(Args args);

}  // namespace railwise::cli
