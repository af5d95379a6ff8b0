// The life of the spy in a process: its log, its record, and when it reports. Any thread.
#pragma once

#include <string>

#include "nccl/types.h"

namespace railwise::spy {

// At each init: NCCL's logger, and the record of this process. `name` and `version` are those of the plugin's
// table that NCCL uses.
void begin(ncclDebugLogger_t logger, const char* name, int version);
// When nothing is open any more: reports, and ends the record where NCCL has told the end.
void end(bool told);

// The name in the plugin's table, and the version of that table; "" and 0 before init.
std::string pluginName();
int apiInUse();

// What the spy says at the end: a few lines at INFO, and all of it as JSON in the file that
// RAILWISE_SPY_REPORT names.

// Logs the summary, and writes the report where a file is named for it.
void reportNow();
// Writes the report alone: NCCL's logger may be gone.
void writeReport();

}  // namespace railwise::spy
