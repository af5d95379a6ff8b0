// The commands that look into running and dead jobs: railwise top, stuck, postmortem and metrics.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// Each takes the arguments behind its name and answers the exit status of the command.
int topCommand(Args args);
int stuckCommand(Args args);
int postmortemCommand(Args args);
int metricsCommand(Args args);

}  // namespace railwise::cli
