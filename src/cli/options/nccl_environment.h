// NCCL's configuration files in the environment of this process, as NCCL puts them there: what a command says
// about a machine is what NCCL would do on it.
#pragma once

#include <vector>

#include "base/settings/config.h"

namespace railwise::cli {

// Reads the files into the environment; a variable that is set stays. Call it on the main thread before other
// threads start.
void readNcclConf();

// The line of the file that has set a variable. Null: the environment has, or nothing.
const ConfVariable* confLineOf(const char* variable);

// The environment without what the files have set, as environ(7).
std::vector<const char*> environmentAlone();

}  // namespace railwise::cli
