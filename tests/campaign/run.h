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

// --conduct applies the faults of a seed to ranks that another program runs, on the software
// machine that the seed draws. scripts/fault-campaign --nccl uses it with NCCL itself.
//
// Both sides write lines; the lines of this command are JSON objects. The order:
//   command: {"device": RAILWISE_DEVICE of the ranks, "hosts": RAILWISE_HOST of each, "environment": ...}
//   program: traffic    all ranks are connected: the clock of the schedule starts
//   command: {"over": true}    every fault has happened: data need not flow any longer
//   program: end        the first rank has finished or failed: later events do not count
//   command: {"quiet": true}   no new fault will happen: ranks may close their connections
//   program: end of input      every rank has ended
//   command: {"faults_fired": ..., "pairs_left": ..., "unreachable": ..., "left_behind": ...}
// Returns the exit status of the command.
int conductFaults(const FaultOptions& options);

}  // namespace railwise::cli
