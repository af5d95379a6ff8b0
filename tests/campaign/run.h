// A run with faults: starts the ranks on the machine of the schedule, makes the faults happen, follows what
// the ranks do, and judges how the run ended. Main thread of the launcher.
#pragma once

#include <span>

#include "tests/campaign/options.h"

namespace railwise::cli {

// `args` are the arguments of the ranks. Returns the exit status.
int runWithFaults(const FaultOptions& options, std::span<const char* const> args);

// For --dry-run: prints what would be done.
void printSchedule(const FaultOptions& options);

}  // namespace railwise::cli
