// A job on software devices gets a fabric of its own, unless the user names one: it meets nothing else that
// the user runs, whose devices may have the same addresses.
#pragma once

#include <string>

#include "perf/job/rank_environment.h"

namespace railwise::tools {

// The fabric of this process, and of those that it starts, is `name` where neither RAILWISE_FABRIC nor the
// configuration of the devices names one.
void useOwnFabric(const std::string& name);

// Of a job whose ranks mpirun, srun or torchrun started: a name that all ranks find, and no other job does.
std::string fabricOfJob(const RankIdentity& rank);

}  // namespace railwise::tools
