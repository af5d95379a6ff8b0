// Making and destroying queue pairs, for the calls that do.
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// ibv_create_qp; init.cap is what the QP has, in the end.
ibv_qp* makeQp(ibv_pd* pd, ibv_qp_init_attr& init);
// ibv_modify_qp, but for fault rules; `restricted`: only what a program may do with a queue pair of iWARP.
int changeState(Qp& qp, const ibv_qp_attr& attr, int mask, bool restricted);
// Destroys one that its program has left behind: no fault rule keeps it, and nobody will acknowledge the
// events that were read.
void discardQp(Qp& qp);
// ECE of a fresh queue pair, and what becomes of it on the way to RTR.
void offerEce(Qp& qp);
void agreeOnEce(Qp& qp);

}  // namespace railwise::softdev
