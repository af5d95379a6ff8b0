// A process joins and leaves a fabric: it makes or finds the shared segment, takes a process slot in it, and
// starts and stops the services for other processes. A forked child forgets the attachment and attaches on
// its own. Thread-safe.
#pragma once

#include <string>

#include "base/status.h"
#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// Attaches, or counts one more use. If the process is attached, `name` must be the name of that fabric.
Result<Fabric*> attachFabric(const std::string& name);
// Like attachFabric(), but only if some process is on the fabric. Otherwise kNoDevice, without a WARN.
Result<Fabric*> joinFabric(const std::string& name);
void detachFabric(Fabric* fabric);

}  // namespace railwise::softdev
