// The calls of ibv_context.ops. Thread-safe; see ibv_post_send, ibv_post_recv and ibv_poll_cq.
#pragma once

#include <infiniband/verbs.h>

#include "softdev/engine/progress.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev {

// EINVAL: wrong state or opcode, or more SGEs or inline bytes than the QP has. ENOMEM: the send queue is
// full.
int postSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
// 0, or the errno that a fault rule gives to a call that posts. A rule may delay the call, so the caller must
// hold no lock.
int postFault(const Qp& qp);
// Holds the lock under which sends are posted: the QP's sq_lock, or in engine mode its inbox_lock.
class SendLock {
 public:
  enum class Held { kTake, kAdopt };
  explicit SendLock(Qp& qp, Held held = Held::kTake) : qp_(qp) {
    if (held == Held::kTake) take(qp);
  }
  ~SendLock() {
    give(qp_);
    if (tell_) [[unlikely]]
      progressAdd(qp_);
  }
  SendLock(const SendLock&) = delete;
  SendLock& operator=(const SendLock&) = delete;

  static void take(Qp& qp) { (qp.engine ? qp.inbox_lock : qp.sq_lock).lock(); }
  static void give(Qp& qp) { (qp.engine ? qp.inbox_lock : qp.sq_lock).unlock(); }

  // Does not consult the fault rules: the caller has done that (postFault).
  int post(ibv_send_wr* wr, ibv_send_wr** bad_wr);

 private:
  Qp& qp_;
  bool tell_ = false;
};

// Can every request of the chain be posted? 0, or the errno that posting would return. The caller holds a
// SendLock.
int checkSends(const Qp& qp, const ibv_send_wr* wr);
// EINVAL: the QP is in RESET, or the request has too many SGEs. ENOMEM: the receive queue is full.
int postRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int postSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int reqNotifyCq(ibv_cq* cq, int solicited_only);
// Takes up to `most` completions. -EIO as in pollCq(). The caller holds poll_lock, so no fault rule is
// consulted.
int pollLocked(Cq& cq, int most, Polled* polled);
bool isEmpty(const CqRecord& record);
// Called for a poll that found nothing: 0, or a negative errno. A fault rule may delay the call, so the
// caller must hold no lock.
int pollEmpty(Cq& cq);
// Tries the parked sends whose completions go to this CQ.
void retryParkedFor(Cq& cq);
// Returns the number of completions taken; -EIO once a queue that has overflowed is empty.
int pollCq(ibv_cq* cq, int num_entries, ibv_wc* wc);

}  // namespace railwise::softdev
