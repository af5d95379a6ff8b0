// Connects the fault injector (faults.h) with the data path. Used while a rule is armed.
#pragma once

#include "softdev/engine/requester.h"
#include "softdev/faults/faults.h"
#include "softdev/queues/injection.h"

namespace railwise::softdev {

// The caller of every function here holds the QP's sq_lock, and no shared lock but those of `chain`.

// Executes a send under the fault rules. The QP is in RTS and has no parked sends.
void submitFaulty(Qp& qp, Chain& chain, const Work& work);
// Applies the rules to a send; call it once per send. When it returns, the actions on ports, devices and
// processes are done. `chain`, if not null, is closed before these.
void judge(Qp& qp, const Work& work, Chain* chain, Injection* injection);
// Must the send still wait for its time?
bool heldBack(const Injection& injection);
// Executes the send, or the effect that replaces it.
Outcome execute(Qp& qp, Chain& chain, const Work& work, const Injection& injection);

}  // namespace railwise::softdev
