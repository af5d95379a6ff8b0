#include "softdev/queues/reclaim.h"

#include <algorithm>

#include "softdev/fabric/tables.h"
#include "softdev/memory/agent.h"
#include "softdev/queues/completion_ring.h"
#include "softdev/queues/receive_claim.h"
#include "softdev/queues/responder.h"

namespace railwise::softdev {
namespace {

// Frees locks of living processes that the dead process held. Does it at once, so that nobody has to find
// these locks later.
void freeLocksOf(Fabric& fabric, uint32_t token) {
  Segment& segment = *fabric.segment;
  for (uint32_t i = 0; i < segment.qps_marks.high_water; ++i) {
    if (segment.qps[i].responder.owner() == token) ResponderGuard guard(fabric, segment.qps[i]);
  }
  for (uint32_t i = 0; i < segment.cqs_marks.high_water; ++i) {
    if (segment.cqs[i].lock.owner() == token) CqGuard guard(fabric, segment.cqs[i]);
  }
  for (uint32_t i = 0; i < segment.srqs_marks.high_water; ++i) {
    if (segment.srqs[i].lock.owner() == token) SrqGuard guard(fabric, segment.srqs[i]);
  }
  for (AgentRecord& agent : segment.agents) {
    if (agent.lock.owner() == token) SharedLockGuard guard(agent.lock, fabric.self);
  }
}

}  // namespace

void releaseAllOf(Fabric& fabric, uint32_t token) {
  Segment& segment = *fabric.segment;
  if (token != fabric.self.token) freeLocksOf(fabric, token);
  retireAgent(fabric, token);  // before another process gets its bounce pages
  // Queue pairs come first: without them nobody pushes to the completion queues or resolves the keys below.
  for (uint32_t i = 0; i < segment.qps_marks.high_water; ++i) {
    if (segment.qps[i].owner.load(std::memory_order_relaxed) != token) continue;
    retireQp(fabric, segment.qps[i]);
    freeRecord(segment.qps, i, segment.qps_marks);
  }
  for (uint32_t i = 0; i < segment.mrs_marks.high_water; ++i) {
    if (segment.mrs[i].owner.load(std::memory_order_relaxed) != token) continue;
    retireMr(segment.mrs[i]);
    freeRecord(segment.mrs, i, segment.mrs_marks);
  }
  for (uint32_t i = 0; i < segment.cqs_marks.high_water; ++i) {
    if (segment.cqs[i].owner.load(std::memory_order_relaxed) == token)
      freeRecord(segment.cqs, i, segment.cqs_marks);
  }
  for (uint32_t i = 0; i < segment.srqs_marks.high_water; ++i) {
    if (segment.srqs[i].owner.load(std::memory_order_relaxed) == token)
      freeRecord(segment.srqs, i, segment.srqs_marks);
  }
  for (uint32_t i = 0; i < segment.contexts_marks.high_water; ++i) {
    if (segment.contexts[i].owner.load(std::memory_order_relaxed) == token)
      freeRecord(segment.contexts, i, segment.contexts_marks);
  }
  for (uint32_t i = 0; i < segment.pages_marks.high_water; ++i) {
    if (segment.page_owners[i].load(std::memory_order_relaxed) != token) continue;
    segment.page_owners[i].store(0, std::memory_order_relaxed);
    segment.pages_marks.first_free = std::min(segment.pages_marks.first_free, i);
  }
}

void reclaimDead(Fabric& fabric) {
  for (uint32_t i = 0; i < kMaxProcesses; ++i) {
    ProcessSlot& slot = fabric.segment->processes[i];
    const uint32_t token = makeToken(i, slot.generation.load(std::memory_order_acquire));
    if (slot.pid.load(std::memory_order_acquire) == 0 || tokenAlive(fabric.self, token)) continue;
    SharedLockGuard guard(fabric.segment->tables, fabric.self);
    if (slot.pid.load(std::memory_order_acquire) == 0 ||
        makeToken(i, slot.generation.load(std::memory_order_acquire)) != token)
      continue;  // another process has reclaimed it
    releaseAllOf(fabric, token);
    slot.pid.store(0, std::memory_order_release);
  }
}

}  // namespace railwise::softdev
