// What a run of `railwise perf` is compared with: the software machine's pacing, and NCCL's model of this
// machine. Main thread.
#pragma once

#include "perf/collective/rank.h"

namespace railwise::cli {

// Both look at RAILWISE_DEVICE when they are called.
MachineKnowledge knowledgeOfMachine();

}  // namespace railwise::cli
