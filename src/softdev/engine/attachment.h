// A process joins a fabric and leaves it: makes or finds the shared segment, takes a process slot in it, and
// starts and stops what serves the other processes. A forked child forgets the attachment and attaches on its
// own. Thread-safe.
#pragma once

#include <string>

#include "base/status.h"
#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// Attaches, or counts one more use. `name` must be the attached one when there is one.
Result<Fabric*> attachFabric(const std::string& name);
// The same when some process is on the fabric; kNoDevice, and no WARN, when nobody is.
Result<Fabric*> joinFabric(const std::string& name);
void detachFabric(Fabric* fabric);

}  // namespace railwise::softdev
