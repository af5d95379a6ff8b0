// Sends that wait: for a receive at the peer, for a peer that is not there (yet), or in engine mode for the
// engine. One thread of the process tries them. The thread runs only while something waits, and a little
// longer. Sends that wait for their peer are also tried when their QP posts or their CQ is polled. Lock
// order: a QP's sq_lock, then the progress mutex. The thread holds no mutex while it works, and takes sq_lock
// only if it is free.
#pragma once

#include "softdev/queues/objects.h"

namespace railwise::softdev {

// progressAdd: the QP has parked sends from now on. progressRemove: it has none any more, and when the call
// returns the thread does not use the QP. The caller holds sq_lock.
void progressAdd(Qp& qp);
void progressRemove(Qp& qp);

// Tries the parked sends whose completions go to `cq`. Skips QPs that are busy or in engine mode.
void retryParkedOn(Cq& cq);

// Joins the thread. Nothing may be parked.
void stopProgress();
// Called in a forked child: the thread and all parked sends stayed with the parent. The parent has called
// prepareToForgetProgress() before the fork, because the child must not allocate: another thread may have
// held a lock of the allocator (the C library takes its own over a fork; those of the sanitizers and others
// may not).
void prepareToForgetProgress();
void forgetProgress();

}  // namespace railwise::softdev
