// railwise fingerprint: which driver, firmware and libraries a node has, and which of many nodes is odd.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// Takes the arguments behind its name and answers the exit status of the command.
int fingerprintCommand(Args args);

}  // namespace railwise::cli
