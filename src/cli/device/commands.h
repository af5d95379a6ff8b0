// The subcommands of `railwise device`.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// Each function takes the arguments after the subcommand's name and returns the exit status.
int deviceCommand(Args args);
int deviceRunCommand(Args args);
int deviceListCommand(Args args);
int deviceShowCommand(Args args);
int deviceSysfsCommand(Args args);
int deviceFaultCommand(Args args);
int devicePortCommand(Args args);
int deviceStatsCommand(Args args);

}  // namespace railwise::cli
