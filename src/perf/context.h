// What a run of `railwise perf` is compared with, and what it has survived. Main thread.
#pragma once

#include <string>
#include <vector>

#include "perf/collective/rank.h"
#include "record/snapshot.h"

namespace railwise::cli {

// The software machine's pacing, and NCCL's model of this machine. Both look at RAILWISE_DEVICE when they are
// called.
MachineKnowledge knowledgeOfMachine();

// What a run has survived, from the records that its ranks leave (src/record): lines that begin with '#', as
// the rest of the table's foot. For each port, how many ends of connections noticed a failure of it, and how
// many ends (of the peers too) came back; and the longest time from there to the next path. "": nothing
// failed. Pure.
std::string survivedText(const std::vector<record::Snapshot>& ranks);

}  // namespace railwise::cli
