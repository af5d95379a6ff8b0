// The launcher of `railwise perf`: it starts the ranks, and with --timeline it follows what they receive.
// Main thread.
#pragma once

#include <span>

#include "perf/results/run_options.h"

namespace railwise::cli {

// `args` are the arguments of the ranks. Returns the exit status of the command.
int launchPerf(const PerfOptions& options, std::span<const char* const> args, bool software_fallback);

}  // namespace railwise::cli
