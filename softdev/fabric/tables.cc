#include "softdev/fabric/tables.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace railwise::softdev {
namespace {

void raise(TableMarks& marks, uint32_t used) {
  if (marks.high_water.load(std::memory_order_relaxed) < used)
    marks.high_water.store(used, std::memory_order_release);
}

// First-fit allocation in a table whose entries have `owner`. Index 0 stays unused.
template <typename Record>
uint32_t allocate(Record* records, uint32_t count, uint32_t first, TableMarks& marks, uint32_t token,
                  const std::function<void(Record&)>& fill = nullptr) {
  for (uint32_t i = std::max(marks.first_free, first); i < count; ++i) {
    if (records[i].owner.load(std::memory_order_relaxed) != 0) continue;
    // Stored before the owner, because reclaiming looks only below the mark.
    raise(marks, i + 1);
    if (fill != nullptr) fill(records[i]);
    records[i].owner.store(token, std::memory_order_release);
    marks.first_free = i + 1;
    return i;
  }
  return 0;
}

bool pageFree(const Segment& segment, uint32_t page) {
  return segment.page_owners[page].load(std::memory_order_relaxed) == 0;
}

}  // namespace

void retireQp(Fabric& fabric, QpRecord& qp) {
  SharedLockGuard guard(qp.responder, fabric.self);
  ++qp.epoch;
  qp.qp_num.store(0, std::memory_order_release);
  qp.state.store(IBV_QPS_RESET, std::memory_order_release);
  // Leaves no receive that could be flushed to a CQ that may be gone.
  qp.rq_head = qp.rq_tail.load(std::memory_order_relaxed);
}

void retireMr(MrRecord& mr) {
  mr.key_byte.store(mr.key_byte.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  mr.key.store(0, std::memory_order_seq_cst);
  mr.backing_fd.store(0, std::memory_order_release);
}

uint32_t allocateContext(Fabric& fabric, const std::function<void(ContextRecord&)>& fill) {
  Segment& segment = *fabric.segment;
  SharedLockGuard guard(segment.tables, fabric.self);
  return allocate(segment.contexts, kMaxContexts, 1, segment.contexts_marks, fabric.self.token, fill);
}

uint32_t allocateQp(Fabric& fabric) {
  Segment& segment = *fabric.segment;
  SharedLockGuard guard(segment.tables, fabric.self);
  return allocate(segment.qps, kMaxQps, kFirstQpIndex, segment.qps_marks, fabric.self.token);
}

uint32_t allocateCq(Fabric& fabric) {
  Segment& segment = *fabric.segment;
  SharedLockGuard guard(segment.tables, fabric.self);
  return allocate(segment.cqs, kMaxCqs, 1, segment.cqs_marks, fabric.self.token);
}

uint32_t allocateSrq(Fabric& fabric) {
  Segment& segment = *fabric.segment;
  SharedLockGuard guard(segment.tables, fabric.self);
  return allocate(segment.srqs, kMaxSrqs, 1, segment.srqs_marks, fabric.self.token);
}

uint32_t allocateMr(Fabric& fabric) {
  Segment& segment = *fabric.segment;
  SharedLockGuard guard(segment.tables, fabric.self);
  return allocate(segment.mrs, kMaxMrs, 1, segment.mrs_marks, fabric.self.token);
}

void releaseContext(Fabric& fabric, uint32_t index) {
  SharedLockGuard guard(fabric.segment->tables, fabric.self);
  freeRecord(fabric.segment->contexts, index, fabric.segment->contexts_marks);
}

void releaseQp(Fabric& fabric, uint32_t index) {
  Segment& segment = *fabric.segment;
  SharedLockGuard guard(segment.tables, fabric.self);
  retireQp(fabric, segment.qps[index]);
  freeRecord(segment.qps, index, segment.qps_marks);
}

void releaseCq(Fabric& fabric, uint32_t index) {
  SharedLockGuard guard(fabric.segment->tables, fabric.self);
  freeRecord(fabric.segment->cqs, index, fabric.segment->cqs_marks);
}

void releaseSrq(Fabric& fabric, uint32_t index) {
  SharedLockGuard guard(fabric.segment->tables, fabric.self);
  freeRecord(fabric.segment->srqs, index, fabric.segment->srqs_marks);
}

void releaseMr(Fabric& fabric, uint32_t index) {
  Segment& segment = *fabric.segment;
  SharedLockGuard guard(segment.tables, fabric.self);
  retireMr(segment.mrs[index]);
  freeRecord(segment.mrs, index, segment.mrs_marks);
}

bool allocatePages(Fabric& fabric, uint64_t bytes, uint64_t* offset) {
  Segment& segment = *fabric.segment;
  const auto pages = static_cast<uint32_t>((bytes + kPageBytes - 1) / kPageBytes);
  SharedLockGuard guard(segment.tables, fabric.self);
  TableMarks& marks = segment.pages_marks;
  uint32_t run = 0;
  for (uint32_t i = marks.first_free; i < kArenaPages; ++i) {
    run = pageFree(segment, i) ? run + 1 : 0;
    if (run < pages) continue;
    const uint32_t first = i + 1 - pages;
    raise(marks, i + 1);
    for (uint32_t page = first; page <= i; ++page)
      segment.page_owners[page].store(fabric.self.token, std::memory_order_relaxed);
    if (first == marks.first_free) marks.first_free = i + 1;
    *offset = uint64_t{first} * kPageBytes;
    std::memset(arenaAt<std::byte>(segment, *offset), 0, size_t{pages} * kPageBytes);
    return true;
  }
  return false;
}

void releasePages(Fabric& fabric, uint64_t offset, uint64_t bytes) {
  Segment& segment = *fabric.segment;
  const auto first = static_cast<uint32_t>(offset / kPageBytes);
  const auto pages = static_cast<uint32_t>((bytes + kPageBytes - 1) / kPageBytes);
  SharedLockGuard guard(segment.tables, fabric.self);
  // Returns the memory to the system.
  (void)madvise(arenaAt<std::byte>(segment, offset), size_t{pages} * kPageBytes, MADV_REMOVE);
  for (uint32_t page = first; page < first + pages; ++page)
    segment.page_owners[page].store(0, std::memory_order_relaxed);
  segment.pages_marks.first_free = std::min(segment.pages_marks.first_free, first);
}

}  // namespace railwise::softdev
