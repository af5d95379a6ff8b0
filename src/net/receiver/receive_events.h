// The events of a receive for NCCL's profiler, one for each buffer for which NCCL wants one. May allocate and
// call NCCL. Call them from the thread that drives the connection.
#pragma once

#include <span>

#include "net/receiver/receive.h"
#include "verbs/handles.h"

namespace railwise::net {

// `device`: NCCL's number of the device. `qp`: brought data last; null: there is none.
void startEvents(Receive& receive, std::span<const ReceiveBuffer> buffers, int device, const ibv_qp* qp);
// The receive is complete.
void stopEvents(const Receive& receive, int device);

}  // namespace railwise::net
