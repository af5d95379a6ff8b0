// Sends that wait: for a receive at the peer, for a peer that is not there (yet), or in engine mode for the
// engine. One thread of the process tries them; it runs only while something waits, and a little longer.
// Sends that wait for their peer are also tried when their QP posts or its CQ is polled. Lock order: a QP's
// sq_lock, then the progress mutex; the thread, which holds no mutex while it works, only tries sq_lock.
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// The QP has parked sends from now on / no more. sq_lock is held. When the latter returns the thread has left
// the QP.
void progressAdd(Qp& qp);
void progressRemove(Qp& qp);

// Tries the parked sends whose completions go to `cq`; skips what is busy, and QPs of an engine.
void retryParkedOn(Cq& cq);

// Joins the thread; nothing may be parked.
void stopProgress();
// In a forked child: the thread and all that is parked stayed with the parent.
void forgetProgress();

}  // namespace railwise::softdev
