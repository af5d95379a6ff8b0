// How the command line of `railwise perf` is read.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "perf/collective/run_options.h"

namespace railwise::tools {

struct PerfCommand {
  PerfOptions options;
  bool help = false;
};
// Nothing and `error` set: a usage error.
std::optional<PerfCommand> parsePerf(std::span<const char* const> args, std::string* error);
std::string perfHelp();

}  // namespace railwise::tools
