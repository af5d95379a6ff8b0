// What the spy says at the end: a few lines at INFO, and all of it as JSON in the file that
// RAILWISE_SPY_REPORT names. Any thread.
#pragma once

#include <string>

namespace railwise::spy {

// The lines of the summary, each without a newline.
std::string summaryText();
std::string reportJson();

// Logs the summary, and writes the report where a file is named for it.
void reportNow();
// Writes the report alone: NCCL's logger may be gone.
void writeReport();

// `name` with %p, the process, and %h, the host, as in NCCL_DEBUG_FILE.
std::string reportFile(const std::string& name, const std::string& host, int process);

}  // namespace railwise::spy
