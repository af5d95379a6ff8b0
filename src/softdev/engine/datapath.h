// The calls of ibv_context.ops. Thread-safe; see ibv_post_send, ibv_post_recv and ibv_poll_cq.
#pragma once

#include <infiniband/verbs.h>

#include "softdev/engine/progress.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev {

// EINVAL: state, opcode, or more SGEs or inline bytes than the QP has; ENOMEM: the send queue is full.
int postSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
// 0, or the errno that a fault rule gives to posting: it may take its time, so no lock is held.
int postFault(const Qp& qp);
// Who posts sends holds the QP's sq_lock, or its inbox_lock in engine mode.
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

  // What the fault rules say was asked before (postFault).
  int post(ibv_send_wr* wr, ibv_send_wr** bad_wr);

 private:
  Qp& qp_;
  bool tell_ = false;
};

// Whether every request of the chain can be posted: 0 or the errno that posting would give. Under a SendLock.
int checkSends(const Qp& qp, const ibv_send_wr* wr);
// EINVAL: the QP is in RESET, or too many SGEs; ENOMEM: the receive queue is full.
int postRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int postSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int reqNotifyCq(ibv_cq* cq, int solicited_only);
// Takes up to `most` completions; -EIO as pollCq(). poll_lock is held, so no fault rule is asked.
int pollLocked(Cq& cq, int most, Polled* polled);
bool isEmpty(const CqRecord& record);
// A poll that found nothing: 0, or a negative errno. A fault rule may take its time: no lock is held.
int pollEmpty(Cq& cq);
// Tries parked sends whose completions come to the CQ.
void retryParkedFor(Cq& cq);
// Completions taken; -EIO once a queue that overflowed is empty.
// Completions taken; -EIO once a queue that overflowed is empty.
int pollCq(ibv_cq* cq, int num_entries, ibv_wc* wc);

}  // namespace railwise::softdev
