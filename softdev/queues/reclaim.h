// Frees what dead processes have left in the shared segment, however they died. Thread-safe.
#pragma once

#include <cstdint>

#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// Frees all records of dead processes.
void reclaimDead(Fabric& fabric);
// Frees all records that carry `token`. The caller holds the table lock.
void releaseAllOf(Fabric& fabric, uint32_t token);

}  // namespace railwise::softdev
