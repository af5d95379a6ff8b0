// Making and destroying queue pairs, for the calls that do.
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// ibv_create_qp; init.cap is what the QP has, in the end.
ibv_qp* makeQp(ibv_pd* pd, ibv_qp_init_attr& init);
// Destroys one that its program has left behind: no fault rule keeps it, and nobody will acknowledge the
// events that were read.
void discardQp(Qp& qp);

}  // namespace railwise::softdev
