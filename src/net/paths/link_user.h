// What the floor of paths asks of whoever sends over it. A link knows two ends, the paths between them and
// the queue pairs of an epoch. What is sent is its user's: messages (connection/), or in tests numbered cells
// (tests/net/paths/fake_user.h). No call here is on the way of a good message.
//
// All functions are called in the thread that drives the link, from Link::idle(), step(), lose() and fail().
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "net/device/window_arena.h"
#include "net/paths/lane.h"
#include "net/wireup/frames.h"
#include "record/layout.h"

namespace railwise::net {

// What the queue pairs of a user must hold.
struct QueuePairNeeds {
  uint32_t send_requests;  // a device with less gives less
  uint32_t receive_requests;
  uint32_t inline_bytes;
  uint32_t control_each;    // bytes of a work request that are no payload, as a rule; for the record
  bool peer_reads = false;  // the other end reads memory of this end, besides the window on iWARP
};

// What an end of a link is certain of, and tells the other end when both have left an epoch: `count` numbers.
// Only users know what the numbers mean, and how many there must be.
struct Words {
  uint32_t count = 0;
  std::array<uint64_t, kMostWords> word = {};
};

// What is under way, for whoever watches over a link.
struct UnderWay {
  uint64_t oldest = 0;  // number of the oldest unit that is not complete; 0: nothing is open
  uint64_t bytes = 0;   // its size
  // What it waits for, where only the user knows; kNothing: for data at the end that was called, for a
  // completion at the other one.
  record::WaitsFor waits_for = record::WaitsFor::kNothing;
};

class LinkUser {
 public:
  // ---- making an epoch

  virtual QueuePairNeeds needs() const = 0;
  // So many rails of the other end can be used at once.
  virtual int mostRails() const = 0;
  // A window for the other end to write into, zeroed. Its last ArrivalProof::kReadTargetBytes belong to the
  // floor; the user has the rest. `registers`: as for WindowArena::take(), whose errors these are.
  virtual Result<Window> makeWindow(bool registers) = 0;
  // A queue pair was made. Posts the receives that the other end relies on, and returns what ibv_post_recv
  // returns.
  virtual int postFirstReceives(std::size_t queue_pair) = 0;
  // The rails and lanes of the epoch are known, and the keys of the other end.
  virtual void onPaired() = 0;
  // Makes memory in use known to the rails of the epoch. False: a device takes no more memory.
  virtual bool takeRails() { return true; }

  // ---- the end of an epoch, in this order

  // The epoch is lost, or the link has failed: from now on nothing takes a fast path. May come from inside
  // Link::post() and Link::poll().
  virtual void onLost() noexcept = 0;
  // Takes what the completion queues still have.
  virtual Status poll() = 0;
  // No queue pair of the epoch touches memory any more at this end, and what they have brought is taken. The
  // queue pairs are still there, and their memory will be that of the next ones: nothing may count by them
  // from now on. Comes again for each epoch that does not begin.
  virtual void onFenced() = 0;
  // What this end is certain of. Both ends have left the epoch.
  virtual Words words() const { return {}; }
  // The other end's words. What they do not say to be there must be sent again. Errors: kRemote, logged.
  virtual Status reconcile(const Words& /*words*/) { return Status::success(); }
  // This end has something to send, or waits for something: a link without paths looks for one.
  virtual bool isOpen() = 0;
  // False: nothing at this end needs a path now, so the time without one does not count.
  virtual bool needsPath() const { return true; }
  // The old queue pairs may write into memory that is not the window's (reads of the peer's memory). A link
  // then never goes on before they are proven to have stopped.
  virtual bool mustStop() const { return false; }
  // The epoch runs at both ends: sends again what must be.
  virtual Status onBegun() = 0;

  // ---- news

  // A number that the other end's user has told of itself (Link). True: it shows that something is missing
  // at this end.
  virtual bool onNews(uint64_t number) = 0;
  // A frame that the other end's user has told (Link::tell()): each frame once, in their order, in any phase.
  // May come from inside Link::idle(), Link::poll() and Link::post(). An error fails the link; a user that
  // expects no frame leaves it at this function.
  virtual Status onFrame(std::span<const std::byte, kUserFrameBytes> /*bytes*/) {
    return {Code::kRemote, EPROTO};
  }

  // While the link runs: this end cannot go on without a frame of the other end's user. The link then doubts
  // a side channel that stays silent: somebody may hold the bytes back.
  virtual bool awaitsFrame() const { return false; }

  // The other end has closed the link, and not because of a failure. Everything that it has sent before over
  // the side channel was handed over.
  virtual void onClosed() {}

  // ---- for the record, and for the limits of silence

  // The link looks, or ends: the user writes into its page of the record what only it knows.
  virtual void onLook() {}
  virtual UnderWay underWay() const = 0;
  // Size of the largest unit that is under way, or may be; 0: there is none.
  virtual uint64_t largestUnderWay() const = 0;

 protected:
  ~LinkUser() = default;
};

}  // namespace railwise::net
