// The launcher's side of `railwise perf`: starts the ranks, and with --faults or --timeline follows what they
// do, makes the faults happen, and says what came of it. Main thread.
#pragma once

#include <span>

#include "perf/collective/run_options.h"

namespace railwise::tools {

// `args`: of the ranks. The answer is the command's exit status.
int launchPerf(const PerfOptions& options, std::span<const char* const> args, bool software_fallback);

// --dry-run: what --faults would do.
void printSchedule(const PerfOptions& options);

}  // namespace railwise::tools
