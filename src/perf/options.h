// Reads the command line of `railwise perf`.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "cli/options/help_page.h"
#include "perf/results/run_options.h"

namespace railwise::cli {

struct PerfCommand {
  PerfOptions options;
  bool help = false;
};
// An error if the collective, or its root, is impossible with that many ranks.
Outcome<void> checkRanks(const PerfOptions& options);

// An error is a usage error.
Outcome<PerfCommand> parsePerf(std::span<const char* const> args);
HelpPage perfHelp();

}  // namespace railwise::cli
