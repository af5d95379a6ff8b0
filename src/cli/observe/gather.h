// What this host answers to `railwise stuck`: two reads of the records here. Main thread.
#pragma once

#include <string>
#include <vector>

#include "base/outcome.h"
#include "observe/stuck/facts.h"

namespace railwise::cli {

struct GatherOptions {
  std::string folder;             // as recordFolderOption() leaves it
  std::vector<std::string> pids;  // none: all
  double seconds = 2;             // between the two reads; 0: read once
};

// The error: a pid has no record.
Outcome<observe::HostFacts> gatherHere(const GatherOptions& options);

}  // namespace railwise::cli
