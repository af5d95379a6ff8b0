// A process joins and leaves a fabric: it makes or finds the shared segment, takes a process slot in it, and
// starts and stops the services for other processes. A forked child forgets the attachment and attaches on
// its own. Thread-safe.
#pragma once

#include <string>

#include "base/status.h"
#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// Attaches, or counts one more use. If the process is attached, `choice` must have the name of that fabric.
// EADDRINUSE, after a WARN: the process has chosen no fabric, and its default is in use with another
// configuration.
Result<Fabric*> attachFabric(const FabricChoice& choice);
// Like attachFabric(), but only if some process is on the fabric. Otherwise kNoDevice, without a WARN.
Result<Fabric*> joinFabric(const std::string& name);
void detachFabric(Fabric* fabric);
// From then on fork() takes the process locks (process_locks.h). Call it before the first of them is taken.
void watchForks();

}  // namespace railwise::softdev
