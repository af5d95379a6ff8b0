// What iWARP devices (link=iwarp) do differently, modelled on siw and cxgb4: no immediate data and no atomic
// operations; the connection manager alone connects queue pairs; a send without a receive ends the
// connection. With adversarial placement writes stay invisible until a later send on their queue pair
// completes, which is all that RFC 5040, section 5.5, promises. Thread-safe.
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// Queue pairs of this process, so that the connection manager finds them by number.
void addIwarp(Qp& qp);
void removeIwarp(Qp& qp);

// From INIT to RTS, connected to queue pair `dest_qp_num` of the port with `gid`: 0 or errno, ENOENT when
// this process has no such queue pair on the device of `context`.
int connectIwarp(const ibv_context* context, uint32_t qp_num, uint32_t dest_qp_num, const uint8_t (&gid)[16]);
// The connection is over: to ERR, everything flushed. Nothing when the queue pair is gone.
void disconnectIwarp(const ibv_context* context, uint32_t qp_num);

}  // namespace railwise::softdev
