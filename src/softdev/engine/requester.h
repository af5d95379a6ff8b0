// The sending half of a queue pair: executes sends in the thread that posts them. Everything here needs the
// QP's sq_lock.
#pragma once

#include "softdev/engine/vm_batch.h"
#include "softdev/memory/mover.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev {

enum class Verdict : uint8_t {
  kDone,         // executed, or batched for the flush
  kNoReceive,    // the peer has posted no receive
  kUnreachable,  // nobody answers (yet)
  kFailed,       // completes with `status`, and the QP goes to ERR
  kBroken,       // an earlier send of the batch failed: this one is flushed
};

struct Outcome {
  Verdict verdict = Verdict::kDone;
  ibv_wc_status status = IBV_WC_SUCCESS;
};

// Executes sends of one QP in a row, holding the peer's responder lock from the first on.
class Chain {
 public:
  explicit Chain(Qp& qp) : qp_(qp) {}
  ~Chain() { close(); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  Outcome run(const Work& work);
  // Delivers the batch and lets the peer go. When that fails, the QP is in ERR and everything batched is
  // completed.
  void close() {
    if (locked_) closeLocked();
  }
  bool broken() const { return broken_; }

  // For the fault injector: the peer refuses the send, with what follows at its end; its oldest receive fails
  // with `status` of its own.
  Outcome refuseSend(ibv_wc_status status, bool takes_receive);
  Outcome failReceive(ibv_wc_status status);

 private:
  Outcome lockPeer();
  Outcome lockAlone();  // with nothing batched
  Outcome verifyPeer();
  Outcome dropPeer(Outcome outcome);
  Outcome runHere(const Work& work, const Pieces& pieces);
  Outcome runThere(const Work& work, const Pieces& pieces);
  Outcome runAtomic(const Work& work, const Pieces& pieces);
  Outcome readThere(const Work& work, const Pieces& pieces);
  Outcome targetOf(const Work& work, uint64_t skip, RemotePieces* target);
  bool mapTarget(const Work& work, RemotePieces* target);
  Outcome placeMapped(const Work& work, const Pieces& pieces, const Pieces& target);
  Outcome placeThereNow(const Work& work, const Pieces& pieces, const Pieces& target);
  Outcome refuse(ibv_wc_status status);
  Outcome hold(const Work& work, const Pieces& pieces);
  Outcome placeHeld();
  Outcome noReceive();
  Outcome sendHere(const Work& work, const Pieces& pieces);
  Outcome rejectSend(ibv_wc_status receiver_status);
  bool flush();
  void closeLocked();

  Qp& qp_;
  bool locked_ = false;
  bool broken_ = false;
};

// Pushes the completion of a send.
void completeSend(Qp& qp, const Work& work, ibv_wc_status status);
// Completes `work` with an error: the QP to ERR, everything parked flushed. The peer's lock must not be held.
void failSend(Qp& qp, const Work& work, ibv_wc_status status);
// Tries the parked sends in order; completes them with an error when their time is over.
void retryParked(Qp& qp);
// Parks `work` after those already parked; `reason` counts for the first (kDone: it does not wait for the
// peer).
void park(Qp& qp, const Work& work, Verdict reason);
// Engine mode: queues `work` for the engine. inbox_lock is held, not sq_lock; progressAdd() follows.
void giveToEngine(Qp& qp, const Work& work);
// Moves what was given to the engine behind what is parked.
void emptyInbox(Qp& qp);
// In SQD: tells the owner, if it wants to know, when nothing that had begun is left.
void finishDraining(Qp& qp);
// Completes everything parked as flushed.
void flushParked(Qp& qp);
// Fails at once with RNR when the QP is set to no retry; parks otherwise.
void settle(Qp& qp, Chain& chain, const Work& work, Outcome outcome);

}  // namespace railwise::softdev
