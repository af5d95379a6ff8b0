// What the fault injector does to one send, from the moment a rule struck until it is executed (injector.h).
#pragma once

#include <infiniband/verbs.h>

#include "base/clock.h"

namespace railwise::softdev {

struct Injection {
  enum class Effect : uint8_t {
    kNone,     // it is executed as always
    kFail,     // it completes with `status`
    kRemote,   // the peer refuses it: `status` here, and the peer's queue pair in ERR
    kReceive,  // the peer's receive completes with `status`, and the send with what follows from that
    kLost,     // a datagram: it completes, and nobody gets it
    kFatal,    // the queue pair fails: everything is flushed
  };
  Effect effect = Effect::kNone;
  ibv_wc_status status = IBV_WC_SUCCESS;
  bool judged = false;   // the rules were asked
  bool waits = false;    // until `until`, or
  bool forever = false;  // for ever
  bool adversarial = false;
  Clock::time_point until{};
};

}  // namespace railwise::softdev
