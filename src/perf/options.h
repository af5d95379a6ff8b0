// Reads the command line of `railwise perf`.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "perf/collective/run_options.h"

namespace railwise::cli {

struct PerfCommand {
  PerfOptions options;
  bool help = false;
};
// An error is a usage error.
Outcome<PerfCommand> parsePerf(std::span<const char* const> args);
std::string perfHelp();

}  // namespace railwise::cli
