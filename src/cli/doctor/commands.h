// railwise doctor: what is wrong with this machine, with a job's log, and between machines.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// Each takes the arguments behind its name and answers the exit status of the command.
int doctorCommand(Args args);
int doctorPairCommand(Args args);

}  // namespace railwise::cli
