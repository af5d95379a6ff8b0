// Whether the address of a connection is one of this fabric: software devices reach only processes of their
// own machine, and a peer elsewhere should be a clear refusal, not silence.
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// 0, or EHOSTUNREACH after one WARN, when no port of the fabric has the address of `path` from port `here`.
int checkDestination(const Qp& qp, const PortRecord& here, const ibv_ah_attr& path);

}  // namespace railwise::softdev
