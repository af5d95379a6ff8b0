// Life of completion queues beyond the ibv_ calls.
#pragma once

#include "softdev/objects.h"

namespace railwise::softdev {

// Makes polling skip what the QP has completed so far: it is being reset or destroyed, and completes nothing
// more.
void voidCompletions(ibv_cq* cq, uint32_t qp_index);

// Adds an object's counts to the context's, when it goes. context.objects is held.
void retireCounters(Context& context, const Qp& qp);
void retireCounters(Context& context, const Cq& cq);
void retireCounters(Context& context, const Srq& srq);

}  // namespace railwise::softdev
