// Where the fault injector (faults.h) meets the data path, while some rule is armed.
#pragma once

#include "softdev/engine/requester.h"
#include "softdev/faults/faults.h"
#include "softdev/queues/injection.h"

namespace railwise::softdev {

// Everything here needs the QP's sq_lock and is called with no shared lock but those of `chain`.

// Executes a send of a QP in RTS with nothing parked, as the rules will have it.
void submitFaulty(Qp& qp, Chain& chain, const Work& work);
// Asks the rules about a send, once. What they do to ports, devices and processes is done when this returns;
// `chain`, if there is one, is closed before.
void judge(Qp& qp, const Work& work, Chain* chain, Injection* injection);
// Whether it still has to wait for its time.
bool heldBack(const Injection& injection);
// Executes it, or what stands in its place.
Outcome execute(Qp& qp, Chain& chain, const Work& work, const Injection& injection);

}  // namespace railwise::softdev
