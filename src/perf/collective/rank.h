// Runs one rank of `railwise perf`, from joining the job to its exit status. If the job fails, it ends the
// process.
#pragma once

#include "perf/collective/run_options.h"
#include "perf/job/rank_environment.h"

namespace railwise::cli {

int runRank(const PerfOptions& options, const RankIdentity& identity);

}  // namespace railwise::cli
