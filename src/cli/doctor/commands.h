// railwise doctor: what is wrong with this machine, with a job's logs, and between hosts.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// Each takes the arguments behind its name and answers the exit status of the command.
int doctorCommand(Args args);
int doctorLogCommand(Args args);
int doctorPairCommand(Args args);

}  // namespace railwise::cli
