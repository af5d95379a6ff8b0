// The options of nccl-tests that have another form, or no effect, in `railwise perf`. Scripts for nccl-tests
// may go on naming them.
#pragma once

#include <vector>

#include "cli/options/options.h"
#include "perf/results/run_options.h"

namespace railwise::cli {

// Adds the options that mean something here: which of all types, which rank is the root, how a time is taken.
void addNcclTestsOptions(std::vector<Option>& options, PerfOptions& fields);
// Adds the options about GPUs. A value that would change nothing here is noted in PerfOptions::notes; a value
// that asks for a measurement that perf cannot make is refused.
void addGpuOptions(std::vector<Option>& options, PerfOptions& fields);

}  // namespace railwise::cli
