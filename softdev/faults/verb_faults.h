// Connects the fault injector with the verbs outside the data path: each such verb has one line at its entry.
#pragma once

#include <cerrno>

#include "softdev/faults/faults.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev {

// Returns 0, or the positive errno with which the verb must fail before it does anything. After the device
// has failed: EIO for every verb that does not release something. `qp` is the queue pair concerned, or null.
// The caller holds no lock.
int verbFaultSlow(const Context& context, Verb verb, QpRecord* qp);
inline int verbFault(const Context& context, Verb verb, QpRecord* qp = nullptr) {
  const uint32_t armed = faultsArmed(*context.fabric) & kArmedVerbs;
  if ((armed | context.record->fatal.load(std::memory_order_relaxed)) == 0) [[likely]]
    return 0;
  return verbFaultSlow(context, verb, qp);
}
// Like verbFault(), for a verb that returns a pointer: true with errno set.
inline bool verbFails(const Context& context, Verb verb) {
  const int error = verbFault(context, verb);
  if (error != 0) [[unlikely]]
    errno = error;
  return error != 0;
}
// For opening a device, when there is no context yet.
int openFault(Fabric& fabric, const Device& device);

}  // namespace railwise::softdev
