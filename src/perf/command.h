// `railwise perf` runs a collective through a network plugin.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// Takes the arguments after the command's name and returns the exit status.
int perfCommand(Args args);

}  // namespace railwise::cli
