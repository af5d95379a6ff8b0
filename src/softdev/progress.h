// Sends that wait: for a receive at the peer, or for a peer that is not there (yet). They are tried again
// when their QP posts or its CQ is polled, and by one thread of the process that runs only while something
// waits. Lock order: a QP's sq_lock, then the progress mutex; the thread, which holds the mutex first, only
// tries sq_lock.
#pragma once

#include "softdev/objects.h"

namespace railwise::softdev {

// The QP has parked sends from now on / no more. sq_lock is held.
void progressAdd(Qp& qp);
void progressRemove(Qp& qp);

// Tries the parked sends whose completions go to `cq`; skips what is busy.
void retryParkedOn(Cq& cq);

// Joins the thread; nothing may be parked.
void stopProgress();
// In a forked child: the thread and all that is parked stayed with the parent.
void forgetProgress();

}  // namespace railwise::softdev
