// `railwise perf`: runs a collective through a net plugin.
#pragma once

#include "cli/options/options.h"

namespace railwise::tools {

// Takes the arguments behind the name and answers the exit status of the command.
int perfCommand(Args args);

}  // namespace railwise::tools
