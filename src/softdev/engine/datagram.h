// Sends of unreliable datagram queue pairs. A datagram arrives at once or is lost: where nobody waits for it,
// where no receive is posted or its key is another, it vanishes, and its sender learns nothing.
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// Executes and completes the send; a local error puts the QP into SQE. sq_lock is held.
void sendDatagram(Qp& qp, const Work& work);

}  // namespace railwise::softdev
