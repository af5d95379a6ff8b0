// The subcommand `railwise demo`.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// Takes the arguments after the subcommand's name and returns the exit status.
int demoCommand(Args args);

}  // namespace railwise::cli
