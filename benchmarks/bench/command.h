// `railwise bench`: what a message costs, with one plugin or with several side by side.
#pragma once

#include "cli/options/options.h"

namespace railwise::tools {

// Takes the arguments behind the name and answers the exit status of the command.
int benchCommand(Args args);

}  // namespace railwise::tools
