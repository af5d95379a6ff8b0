// A number for a configuration: equal for two texts that describe the same machine with the same modes, seed
// and faults. Which host a process plays, and which fabric it is on, do not count. Call it before the machine
// is completed (defaults.h), because the completion gives addresses by the name of the computer.
#pragma once

#include <cstdint>

#include "softdev/config/description.h"

namespace railwise::softdev {

uint64_t digestOf(const MachineConfig& machine);

}  // namespace railwise::softdev
