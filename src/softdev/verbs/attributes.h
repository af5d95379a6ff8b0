// The attributes of queue pairs: which a change of state needs and allows, and which values are good
// (InfiniBand specification, section 11.2.5.2; ibv_modify_qp(3)).
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// Alternate paths and changes of capacity are not supported by any transition.
// `iwarp`: as the program may change such a queue pair; RTR and RTS are the connection manager's.
bool transitionAllowed(ibv_qp_type type, bool iwarp, ibv_qp_state from, ibv_qp_state to, int mask);
bool validAttributes(const Context& context, const ibv_qp_attr& attr, int mask);
void storeAttributes(ibv_qp_attr& to, const ibv_qp_attr& from, int mask);

}  // namespace railwise::softdev
