// railwise gpus: the GPUs of a machine, and which of them a job should take.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// Each takes the arguments behind its name and answers the exit status of the command.
int gpusCommand(Args args);
int gpusPickCommand(Args args);
int gpusFitnessCommand(Args args);

}  // namespace railwise::cli
