// Makes and destroys queue pairs, for several ibv_ calls.
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// ibv_create_qp. On return init.cap has the capacities that the QP really has.
ibv_qp* makeQp(ibv_pd* pd, ibv_qp_init_attr& init);
// Destroys a queue pair that its program has abandoned: no fault rule prevents that, and it does not wait for
// acknowledgements of events, which will not come.
void discardQp(Qp& qp);

}  // namespace railwise::softdev
