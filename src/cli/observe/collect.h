// The answers of the ranks of mpirun, srun or torchrun, gathered at rank 0 over TCP. A rank that does not
// come costs the time limit and no more: it may be on the host that is dead. Main thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "perf/job/rank_environment.h"

namespace railwise::cli {

struct RankAnswer {
  int rank = 0;
  std::string text;
};

// Rank 0: waits for all other ranks, until `limit`. Ranks that have not come are missing in the answer.
Outcome<std::vector<RankAnswer>> collectFromRanks(const RankIdentity& identity,
                                                  std::chrono::milliseconds limit);

// Every other rank.
Outcome<void> sendToRankZero(const RankIdentity& identity, const std::string& text,
                             std::chrono::milliseconds limit);

}  // namespace railwise::cli
