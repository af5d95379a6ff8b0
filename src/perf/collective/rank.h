// Runs one rank of `railwise perf`, from joining the job to its exit status. If the job fails, it ends the
// process.
#pragma once

#include <functional>
#include <string>

#include "perf/job/rank_environment.h"
#include "perf/results/comparison.h"
#include "perf/results/report.h"
#include "perf/results/run_options.h"

namespace railwise::cli {

// What a rank does not know itself of the machine.
struct MachineKnowledge {
  // Does the software device that RAILWISE_DEVICE names keep to the speeds of its ports? Asked when the
  // device is chosen, and only of a software device.
  std::function<bool()> software_paced;
  // The fabric of the software device that RAILWISE_DEVICE names.
  std::function<std::string()> software_fabric;
  ModelOfHosts model;
};

// `against`: an earlier run to compare with; null: there is none.
int runRank(const PerfOptions& options, const RankIdentity& identity, const MachineKnowledge& machine,
            const SavedRun* against);

}  // namespace railwise::cli
