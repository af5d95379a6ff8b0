// One rank of `railwise perf`, from joining the job to its exit status. Ends the process when the job fails.
#pragma once

#include "perf/collective/run_options.h"
#include "perf/job/rank_environment.h"

namespace railwise::tools {

int runRank(const PerfOptions& options, const RankIdentity& identity);

}  // namespace railwise::tools
