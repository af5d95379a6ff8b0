// What makes, empties and retires completion queues, beyond the ibv_ calls.
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// The wanted properties of a new CQ.
struct CqWishes {
  uint32_t capacity = 0;  // the CQ has at least this capacity
  void* cq_context = nullptr;
  ibv_comp_channel* channel = nullptr;
  uint32_t comp_vector = 0;
  bool stamped = false;
  bool ignore_overrun = false;
};
// Null with errno on failure. The caller fills in the rest of ibv_cq_ex.
ibv_cq* makeCq(ibv_context* context, const CqWishes& wishes);

// Makes polling skip all completions of the QP so far. The QP is being reset or destroyed, and completes
// nothing more.
void voidCompletions(ibv_cq* cq, uint32_t qp_index);

// Adds the counts of an object that is being destroyed to those of the context. The caller holds
// context.objects.
void retireCounters(Context& context, const Qp& qp);
void retireCounters(Context& context, const Cq& cq);
void retireCounters(Context& context, const Srq& srq);

}  // namespace railwise::softdev
