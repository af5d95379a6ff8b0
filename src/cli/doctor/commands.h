// railwise doctor: what is wrong, and what to type.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// Takes the arguments behind its name and answers the exit status of the command.
int doctorCommand(Args args);

// `railwise doctor --log FILE...`: takes the arguments behind --log. Exit status: 0 fine, 1 warnings, 2
// errors or a mistake on the command line.
int doctorLogCommand(Args args);

}  // namespace railwise::cli
