// The sending half of a queue pair: executes sends in the thread that posts them. The caller of every
// function here holds the QP's sq_lock.
#pragma once

#include "softdev/memory/mover.h"
#include "softdev/memory/peer_memory.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev {

// Writes and sends to another process that one process_vm_writev will carry. There is one batch per QP whose
// peer is another process. The QP's sq_lock and the peer's responder lock guard it.
class VmBatch {
 public:
  static constexpr int kMaxWorks = 32;
  static constexpr int kMaxPieces = 128;
  static_assert(kMaxPieces >= 2 * (static_cast<int>(kMaxSge) + 1));

  bool empty() const { return works_ == 0; }
  // Receives that the batched works will consume.
  uint64_t receives() const { return receives_; }
  bool fits(int locals, int remotes) const {
    return works_ < kMaxWorks && locals_ + locals + 1 <= kMaxPieces && remotes_ + remotes + 1 <= kMaxPieces;
  }

  // `tail_last`: the last 8 bytes become a piece of their own, because the kernel copies piece by piece. One
  // more local piece costs nothing. For one more remote piece the kernel looks the page up again (0.36 us).
  // Where local pieces are not stored in order, PeerMemory::transfer() makes remote pieces of them.
  void add(const Work& work, const Pieces& source, const Pieces& target, bool consumes_receive,
           bool tail_last);

  // Moves everything. Returns the number of work requests that arrived whole. *error receives the errno of
  // the next one.
  int move(PeerMemory& peer, int* error, uint64_t* calls);
  const Work& work(int i) const { return list_[i]; }
  int works() const { return works_; }
  void clear();

 private:
  static void splitTail(iovec* list, int* count);

  int works_ = 0;
  int locals_ = 0;
  int remotes_ = 0;
  uint64_t receives_ = 0;
  Work list_[kMaxWorks];
  iovec local_[kMaxPieces];
  iovec remote_[kMaxPieces];
};

inline void VmBatch::add(const Work& work, const Pieces& source, const Pieces& target, bool consumes_receive,
                         bool tail_last) {
  list_[works_++] = work;
  receives_ += consumes_receive ? 1 : 0;
  for (int i = 0; i < source.count; ++i) local_[locals_++] = {source.list[i].address, source.list[i].length};
  for (int i = 0; i < target.count; ++i)
    remote_[remotes_++] = {target.list[i].address, target.list[i].length};
  if (!tail_last || work.length <= kTailBytes) return;
  const uint64_t last = source.list[source.count - 1].length;
  if (last > kTailBytes) {
    splitTail(local_, &locals_);
  } else if (last < kTailBytes) {  // the last 8 bytes begin in an earlier local piece
    splitTail(remote_, &remotes_);
  }
}

// Makes the last 8 bytes of a list a piece of their own.
inline void VmBatch::splitTail(iovec* list, int* count) {
  iovec& body = list[*count - 1];
  body.iov_len -= kTailBytes;
  list[(*count)++] = {static_cast<std::byte*>(body.iov_base) + body.iov_len, kTailBytes};
}

inline int VmBatch::move(PeerMemory& peer, int* error, uint64_t* calls) {
  uint64_t moved = peer.transfer(true, local_, locals_, remote_, remotes_, error, calls);
  if (*error == 0) return works_;
  int whole = 0;
  while (whole < works_ && list_[whole].length <= moved) moved -= list_[whole++].length;
  return whole;
}

inline void VmBatch::clear() {
  works_ = locals_ = remotes_ = 0;
  receives_ = 0;
}

enum class Verdict : uint8_t {
  kDone,         // executed, or batched until the next flush
  kNoReceive,    // the peer has posted no receive
  kUnreachable,  // the peer does not answer (yet)
  kWindowFull,   // max_rd_atomic READs and atomics are outstanding
  kFailed,       // the send completes with `status`, and the QP goes to ERR
  kBroken,       // an earlier send of the batch failed, so this one is flushed
};

struct Outcome {
  Verdict verdict = Verdict::kDone;
  ibv_wc_status status = IBV_WC_SUCCESS;
};

// Executes consecutive sends of one QP. Holds the peer's responder lock from the first send on.
class Chain {
 public:
  explicit Chain(Qp& qp) : qp_(qp) {}
  ~Chain() { close(); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  Outcome run(const Work& work);
  // Delivers the batch and releases the peer's lock. If the delivery fails, the QP is in ERR and all batched
  // sends are completed.
  void close() {
    if (locked_) closeLocked();
  }
  bool broken() const { return broken_; }

  // For the fault injector. refuseSend: the peer refuses the send, with all effects at the peer. failReceive:
  // the peer's oldest receive fails with `status`.
  Outcome refuseSend(ibv_wc_status status, bool takes_receive);
  Outcome failReceive(ibv_wc_status status);

 private:
  Outcome lockPeer();
  Outcome lockAlone();  // locks the peer, with nothing batched
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
// Completes `work` with an error, puts the QP into ERR and flushes all parked sends. The caller must not hold
// the peer's lock.
void failSend(Qp& qp, const Work& work, ibv_wc_status status);
// Tries the parked sends in order. A send whose time is over completes with an error.
void retryParked(Qp& qp);
// Parks `work` behind the sends already parked. `reason` is used if `work` is the first of them (kDone: it
// does not wait for the peer).
void park(Qp& qp, const Work& work, Verdict reason);
// Engine mode: queues `work` for the engine. The caller holds inbox_lock and not sq_lock, and calls
// progressAdd() afterwards.
void giveToEngine(Qp& qp, const Work& work);
// Moves the sends of the engine's inbox behind the parked sends.
void emptyInbox(Qp& qp);
// In SQD: when no started send is left, notifies the owner, if the owner requested that.
void finishDraining(Qp& qp);
// Completes all parked sends as flushed.
void flushParked(Qp& qp);
// Closes the chain and handles the outcome of a send that was not executed: completes it with an error,
// flushes it or parks it. A send without a receive fails at once if the QP is set to no RNR retry.
void settle(Qp& qp, Chain& chain, const Work& work, Outcome outcome);

}  // namespace railwise::softdev
