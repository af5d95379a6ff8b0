// Where the fault injector meets the verbs that are not the data path: one line at the entry of each.
#pragma once

#include <cerrno>

#include "softdev/faults/faults.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev {

// What fails a verb before it did anything: 0 or a positive errno. EIO for all but those that put away once
// the device has failed. `qp` is the one it concerns, or null. The caller holds no lock.
int verbFaultSlow(const Context& context, Verb verb, QpRecord* qp);
inline int verbFault(const Context& context, Verb verb, QpRecord* qp = nullptr) {
  const uint32_t armed = faultsArmed(*context.fabric) & kArmedVerbs;
  if ((armed | context.record->fatal.load(std::memory_order_relaxed)) == 0) [[likely]]
    return 0;
  return verbFaultSlow(context, verb, qp);
}
// The same for a verb that answers with a pointer: true with errno set.
inline bool verbFails(const Context& context, Verb verb) {
  const int error = verbFault(context, verb);
  if (error != 0) [[unlikely]]
    errno = error;
  return error != 0;
}
// Opening a device, before there is a context.
int openFault(Fabric& fabric, const Device& device);

}  // namespace railwise::softdev
