// How iWARP devices (link=iwarp) differ, modelled on siw and cxgb4. They have no immediate data and no atomic
// operations. Only the connection manager connects queue pairs. A send that finds no receive ends the
// connection. With adversarial placement, writes stay invisible until a later send on their queue pair
// completes; RFC 5040, section 5.5, promises no more. Thread-safe.
#pragma once

#include <map>

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// Registers and unregisters a queue pair of this process, so that the connection manager finds it by its
// number. Only the place, which is made before, needs memory.
using IwarpPlace = std::map<uint32_t, Qp*>::node_type;
IwarpPlace makeIwarpPlace();
void addIwarp(Qp& qp, IwarpPlace place);
void removeIwarp(Qp& qp);

// Moves a queue pair from INIT to RTS, connected to queue pair `dest_qp_num` of the port with `gid`. Returns
// 0 or an errno. ENOENT: this process has no such queue pair on the device of `context`.
int connectIwarp(const ibv_context* context, uint32_t qp_num, uint32_t dest_qp_num, const uint8_t (&gid)[16]);
// Called when the connection is over: puts the queue pair into ERR and flushes everything. Does nothing if
// the queue pair is gone.
void disconnectIwarp(const ibv_context* context, uint32_t qp_num);

}  // namespace railwise::softdev
