// What the fault injector does to one send, from the moment at which a rule strikes until the send is
// executed (injector.h).
#pragma once

#include <infiniband/verbs.h>

#include "base/clock.h"

namespace railwise::softdev {

struct Injection {
  enum class Effect : uint8_t {
    kNone,    // the send is executed normally
    kFail,    // the send completes with `status`
    kRemote,  // the peer refuses the send: it completes with `status`, and the peer's queue pair goes to ERR
    // The peer's receive completes with `status`, and the send with the status that follows from it.
    kReceive,
    kLost,   // a datagram: the send completes, and nobody receives it
    kFatal,  // the queue pair fails: everything is flushed
  };
  Effect effect = Effect::kNone;
  ibv_wc_status status = IBV_WC_SUCCESS;
  bool judged = false;   // the rules were applied
  bool waits = false;    // the send waits until `until`, or, with `forever`, for ever
  bool forever = false;  // with `waits`: the send never goes on
  bool adversarial = false;
  Clock::time_point until{};
};

}  // namespace railwise::softdev
