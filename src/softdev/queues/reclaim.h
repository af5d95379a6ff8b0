// Frees what processes leave behind in the shared segment, however they died. Thread-safe.
#pragma once

#include <cstdint>

#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// Frees everything of dead processes.
void reclaimDead(Fabric& fabric);
// Frees everything that carries `token`. The table lock is held by the caller.
void releaseAllOf(Fabric& fabric, uint32_t token);

}  // namespace railwise::softdev
