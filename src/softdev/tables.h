// Allocation of records and ring pages in the shared segment. Every call takes the segment's table lock (cold
// path). Each record is published by its `owner`, last; freeing clears it, first.
#pragma once

#include <cstdint>

#include "softdev/fabric.h"

namespace railwise::softdev {

// A free index, owned by this process from now on; 0 when the table is full (index 0 is never used).
uint32_t allocateContext(Fabric& fabric);
uint32_t allocateQp(Fabric& fabric);
uint32_t allocateCq(Fabric& fabric);
uint32_t allocateSrq(Fabric& fabric);
uint32_t allocateMr(Fabric& fabric);
void releaseContext(Fabric& fabric, uint32_t index);
void releaseQp(Fabric& fabric, uint32_t index);
void releaseCq(Fabric& fabric, uint32_t index);
void releaseSrq(Fabric& fabric, uint32_t index);
void releaseMr(Fabric& fabric, uint32_t index);

// Zeroed pages for a ring; false when the arena is full. `offset` is relative to the arena.
bool allocatePages(Fabric& fabric, uint64_t bytes, uint64_t* offset);
void releasePages(Fabric& fabric, uint64_t offset, uint64_t bytes);

// Frees everything that carries `token`. The table lock is held by the caller.
void releaseAllOf(Fabric& fabric, uint32_t token);

}  // namespace railwise::softdev
