// `railwise doctor`.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

int doctorCommand(Args args);

}  // namespace railwise::cli
