// The states of a queue pair: which transitions are allowed, and which attributes they need (InfiniBand
// specification, sections 10.3 and 11.2.5.2; ibv_modify_qp(3)).
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// ibv_modify_qp without the fault rules. `restricted`: only what a program may do with an iWARP queue pair.
int changeState(Qp& qp, const ibv_qp_attr& attr, int mask, bool restricted);

// offerEce() sets the ECE options of a new queue pair; agreeOnEce() decides on them on the way to RTR
// (queue_pair_ex.cc).
void offerEce(Qp& qp);
void agreeOnEce(Qp& qp);

// Which attributes a transition needs and allows, and which values are valid (attributes.cc). No transition
// supports alternate paths or changes of capacity. `iwarp`: the rules for a program with an iWARP queue pair;
// only the connection manager moves that to RTR and RTS.
bool transitionAllowed(ibv_qp_type type, bool iwarp, ibv_qp_state from, ibv_qp_state to, int mask);
bool validAttributes(const Context& context, const ibv_qp_attr& attr, int mask);
void storeAttributes(ibv_qp_attr& to, const ibv_qp_attr& from, int mask);

// Does some port of this fabric have the address in `path`? Software devices reach only
// processes of their own machine, and a peer elsewhere should give a clear error, not silence. Returns 0, or
// EHOSTUNREACH after one WARN if no port has the address. `here`: the port of the QP.
int checkDestination(const Qp& qp, const PortRecord& here, const ibv_ah_attr& path);

}  // namespace railwise::softdev
