// The states of a queue pair: which changes are allowed, and what they need (InfiniBand specification,
// sections 10.3 and 11.2.5.2; ibv_modify_qp(3)).
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// ibv_modify_qp, but for fault rules; `restricted`: only what a program may do with a queue pair of iWARP.
int changeState(Qp& qp, const ibv_qp_attr& attr, int mask, bool restricted);

// ECE of a fresh queue pair, and what becomes of it on the way to RTR (queue_pair_ex.cc).
void offerEce(Qp& qp);
void agreeOnEce(Qp& qp);

// Which attributes a change of state needs and allows, and which values are good (attributes.cc). Alternate
// paths and changes of capacity are not supported by any transition. `iwarp`: as the program may change such
// a queue pair; RTR and RTS are the connection manager's.
bool transitionAllowed(ibv_qp_type type, bool iwarp, ibv_qp_state from, ibv_qp_state to, int mask);
bool validAttributes(const Context& context, const ibv_qp_attr& attr, int mask);
void storeAttributes(ibv_qp_attr& to, const ibv_qp_attr& from, int mask);

// Whether the address of a connection is one of this fabric (destination.cc): software devices reach only
// processes of their own machine, and a peer elsewhere should be a clear refusal, not silence. 0, or
// EHOSTUNREACH after one WARN, when no port of the fabric has the address of `path` from port `here`.
int checkDestination(const Qp& qp, const PortRecord& here, const ibv_ah_attr& path);

}  // namespace railwise::softdev
