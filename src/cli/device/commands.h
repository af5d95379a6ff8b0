// The subcommands of `railwise device`.
#pragma once

#include "cli/options/options.h"

namespace railwise::tools {

// Each takes the arguments behind its name and answers the exit status of the command.
int deviceCommand(Args args);
int deviceRunCommand(Args args);
int deviceListCommand(Args args);
int deviceShowCommand(Args args);
int deviceSysfsCommand(Args args);
int deviceFaultCommand(Args args);
int devicePortCommand(Args args);
int deviceStatsCommand(Args args);

}  // namespace railwise::tools
