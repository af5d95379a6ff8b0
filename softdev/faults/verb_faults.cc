#include "softdev/faults/verb_faults.h"

#include <unistd.h>

#include <ctime>

#include "softdev/faults/actions.h"

namespace railwise::softdev {
namespace {

// Verbs that work on a dead device too, so that a program can release its objects.
bool takesDown(Verb verb) {
  switch (verb) {
    case Verb::kDeallocPd:
    case Verb::kDeregMr:
    case Verb::kDestroyCq:
    case Verb::kDestroySrq:
    case Verb::kDestroyQp:
    case Verb::kDestroyAh:
    case Verb::kPollCq:
      return true;
    default:
      return false;
  }
}

// Applies the rules. Returns the errno of the first rule that has one.
int runVerb(const Target& at, const FaultSite& site) {
  int error = 0;
  for (const FaultHit& hit : strike(at.fabric, site)) {
    if (act(at, hit.rule)) continue;
    if (hit.rule.action == FaultAction::kErrno && error == 0) error = static_cast<int>(hit.rule.code);
    if (hit.rule.action == FaultAction::kDelay) {
      const timespec time{static_cast<time_t>(hit.rule.amount / 1'000'000'000),
                          static_cast<long>(hit.rule.amount % 1'000'000'000)};
      nanosleep(&time, nullptr);
    }
  }
  return error;
}

}  // namespace

int verbFaultSlow(const Context& context, Verb verb, QpRecord* qp) {
  if (context.fabric->forgotten) return 0;
  const ContextRecord& record = *context.record;
  if (record.fatal.load(std::memory_order_acquire) != 0 && !takesDown(verb)) return EIO;
  if ((faultsArmed(*context.fabric) & kArmedVerbs) == 0) return 0;
  FaultSite site;
  Target at{*context.fabric, context.index, record.ports[0], qp, nullptr};
  if (qp != nullptr) {
    describePlace(*context.fabric->segment, *qp, &site);
    at.port = qp->port;
  }
  site.verb = verb;
  site.host = context.config_device->host.c_str();
  site.device = record.device;
  site.process = static_cast<uint32_t>(getpid());
  return runVerb(at, site);
}

int openFault(Fabric& fabric, const Device& device) {
  if ((faultsArmed(fabric) & kArmedVerbs) == 0) return 0;
  FaultSite site;
  site.verb = Verb::kOpenDevice;
  site.host = device.host.c_str();
  site.device = device.config.name.c_str();
  site.process = static_cast<uint32_t>(getpid());
  return runVerb({fabric}, site);
}

}  // namespace railwise::softdev
