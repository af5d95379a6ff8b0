// Allocation of records and ring pages in the shared segment. Every call takes the table lock of the segment,
// so all are for the cold path. Allocation stores `owner` last, so that a dead owner's records are
// found. Release clears `owner` first.
#pragma once

#include <cstdint>
#include <functional>

#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// Returns a free index, which this process owns from then on; 0 if the table is full (index 0 is never used).
// `fill` writes the record before others can find it. The other records are found by their key, number or
// lock.
uint32_t allocateContext(Fabric& fabric, const std::function<void(ContextRecord&)>& fill);
uint32_t allocateQp(Fabric& fabric);
uint32_t allocateCq(Fabric& fabric);
uint32_t allocateSrq(Fabric& fabric);
uint32_t allocateMr(Fabric& fabric);
void releaseContext(Fabric& fabric, uint32_t index);
void releaseQp(Fabric& fabric, uint32_t index);
void releaseCq(Fabric& fabric, uint32_t index);
void releaseSrq(Fabric& fabric, uint32_t index);
void releaseMr(Fabric& fabric, uint32_t index);

// Allocates zeroed pages for a ring. False if the arena is full. `offset` is relative to the arena.
bool allocatePages(Fabric& fabric, uint64_t bytes, uint64_t* offset);
void releasePages(Fabric& fabric, uint64_t offset, uint64_t bytes);

// For callers that hold the table lock already (reclaim.h). Once a record is retired nobody can find it; then
// freeRecord() may free its place.
void retireQp(Fabric& fabric, QpRecord& qp);
void retireMr(MrRecord& mr);
template <typename Record>
void freeRecord(Record* records, uint32_t index, TableMarks& marks) {
  if (index < marks.first_free) marks.first_free = index;
  records[index].owner.store(0, std::memory_order_release);
}

}  // namespace railwise::softdev
