// Life of completion queues beyond the ibv_ calls.
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// What a CQ is to be like.
struct CqWishes {
  uint32_t capacity = 0;  // at least
  void* cq_context = nullptr;
  ibv_comp_channel* channel = nullptr;
  uint32_t comp_vector = 0;
  bool stamped = false;
  bool ignore_overrun = false;
};
// The rest of ibv_cq_ex is the caller's to fill in. Null with errno.
ibv_cq* makeCq(ibv_context* context, const CqWishes& wishes);

// Makes polling skip what the QP has completed so far: it is being reset or destroyed, and completes nothing
// more.
void voidCompletions(ibv_cq* cq, uint32_t qp_index);

// Adds an object's counts to the context's, when it goes. context.objects is held.
void retireCounters(Context& context, const Qp& qp);
void retireCounters(Context& context, const Cq& cq);
void retireCounters(Context& context, const Srq& srq);

}  // namespace railwise::softdev
