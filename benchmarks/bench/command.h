// `railwise bench` measures what a message costs, with one plugin or with several plugins compared.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// Takes the arguments after the command's name and returns the exit status.
int benchCommand(Args args);

}  // namespace railwise::cli
