// Sends of unreliable datagram queue pairs. A datagram arrives at once or is lost: it vanishes if no queue
// pair has the number, if no receive is posted or if the Q_Key differs. The sender learns nothing of that.
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// Executes and completes the send. A local error puts the QP into SQE. The caller holds sq_lock.
void sendDatagram(Qp& qp, const Work& work);

}  // namespace railwise::softdev
