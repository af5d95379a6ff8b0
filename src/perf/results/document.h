// Files that a run writes when it has ended. Main thread.
#pragma once

#include <string>

#include "base/outcome.h"
#include "perf/results/run_options.h"

namespace railwise::cli {

// Tries all files that the options name, so that a long run does not end without its results. The error names
// the option and the file.
Outcome<void> checkOutputs(const PerfOptions& options);

// Writes to stdout if `file` is empty. Otherwise a file appears complete or not at all. False: the reason was
// reported to the user.
bool writeDocument(const std::string& file, const std::string& text);

}  // namespace railwise::cli
