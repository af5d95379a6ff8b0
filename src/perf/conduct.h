// railwise perf --conduct: the faults of a seed strike ranks that another program runs, on the machine that
// the seed draws. scripts/fault-campaign --nccl uses it, with NCCL itself. Main thread.
//
// Each side writes lines; ours are JSON objects. The order:
//   we:   {"device": RAILWISE_DEVICE of the ranks, "hosts": RAILWISE_HOST of each, "environment": ...}
//   they: traffic    all ranks are connected: the clock of the schedule begins
//   we:   {"over": true}    every fault has struck: data need not flow any longer
//   they: end        the first rank has finished or failed: what happens from now on does not count
//   we:   {"quiet": true}   nothing new will go wrong: ranks may close their connections
//   they: end of input      every rank has ended
//   we:   {"faults_fired": ..., "pairs_left": ..., "unreachable": ..., "left_behind": ...}
#pragma once

#include "perf/collective/run_options.h"

namespace railwise::tools {

// The answer is the command's exit status.
int conductFaults(const PerfOptions& options);

}  // namespace railwise::tools
