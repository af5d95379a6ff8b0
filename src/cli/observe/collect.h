// The answers of the ranks of mpirun, srun or torchrun, gathered at rank 0 over TCP. A rank that does not
// come costs the time limit and no more: it may be on the host that is dead. Main thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "observe/stuck/facts.h"
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

// What this host answers to `railwise stuck`: two reads of the records here. Main thread.

struct GatherOptions {
  std::string folder;             // as recordFolderOption() leaves it
  std::vector<std::string> pids;  // none: all
  double seconds = 2;             // between the two reads; 0: read once
};

// The error: a pid has no record.
Outcome<observe::HostFacts> gatherHere(const GatherOptions& options);

}  // namespace railwise::cli
