// The operations of one stream: from one context of this rank to one other rank. They are posted in their
// order and done in their order: the source of an operation may be used again only when nothing before it can
// have to be repeated. Plain values; one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "net/limits.h"
#include "net/rma/mistakes.h"
#include "net/rma/window.h"

namespace railwise::net {

class RmaContext;
struct LaneQueuePair;

// A place in the part of a window that one rank has registered.
struct RmaPlace {
  RmaWindow* window = nullptr;
  uint64_t offset = 0;
};

// What a put adds to 8 bytes of the target when all its data, and all that was put before it in its stream,
// are there.
struct RmaSignal {
  RmaPlace at;
  uint64_t value = 0;
};

// What NCCL holds as its request.
class RmaRequest {
 public:
  enum class Kind : uint8_t { kFree, kPut, kGet, kSelfPut, kFlush };
  enum class State : uint8_t { kWaiting, kPosting, kPosted, kDone };
  // What one queue pair carries of it.
  struct Piece {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t next = 0;  // the next byte that is not posted
    uint64_t due = 0;   // it is complete when the queue pair's full_at has come so far; 0: not posted
    uint8_t queue_pair = 0;
    bool reports = false;  // a report follows the data
    bool posted = false;
  };

  // Asked for; nothing is posted yet.
  void begin(RmaContext& its_context, Kind its_kind, uint16_t its_stream, uint32_t its_rank) {
    context = &its_context;
    kind = its_kind;
    stream = its_stream;
    rank = its_rank;
    state = State::kWaiting;
    certain = false;
    pieces = 0;
    number = 0;
  }

  // What it moves: `here` is in this rank's part of a window, `there` in the other rank's.
  void place(const RmaPlace& here, const RmaPlace& there) {
    local = here.window;
    local_offset = here.offset;
    remote_window = there.window->number;
    remote_offset = there.offset;
  }
  void signal(const RmaSignal& its_signal) {
    signal_window = its_signal.at.window->number;
    signal_offset = its_signal.at.offset;
    signal_value = its_signal.value;
  }

  RmaContext* context = nullptr;
  RmaRequest* next = nullptr;  // in its stream, or in a list of free ones
  RmaWindow* local = nullptr;
  uint64_t local_offset = 0;
  uint64_t bytes = 0;
  uint64_t remote_offset = 0;
  uint64_t number = 0;  // of its signal in the stream; 0: it has none
  uint64_t signal_offset = 0;
  uint64_t signal_value = 0;
  uint32_t remote_window = 0;
  uint32_t signal_window = 0;
  uint32_t owed = 0;  // queue pairs that bring a mark of its signal
  uint32_t rank = 0;
  uint16_t stream = 0;
  uint8_t pieces = 0;
  Kind kind = Kind::kFree;
  State state = State::kWaiting;
  bool certain = false;  // the target has said so: no completion is awaited
  std::array<Piece, kMaxRails> piece;
};

class RmaStream {
 public:
  // Gives the next signal its number. Equal at all times to the number of signals that were put.
  uint64_t nextSignal() { return ++last_signal_; }
  uint64_t lastSignal() const { return last_signal_; }
  // All signals up to this one belong to operations that are done.
  uint64_t doneSignal() const { return done_signal_; }
  bool empty() const { return first_ == nullptr; }
  RmaRequest* first() const { return first_; }
  // The first one that is not wholly posted; null: there is none.
  RmaRequest* toPost() const { return to_post_; }

  void add(RmaRequest& request) {
    request.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &request;
    last_ = &request;
    if (to_post_ == nullptr) to_post_ = &request;
  }
  // The first one to post is wholly posted.
  void posted() {
    to_post_->state = RmaRequest::State::kPosted;
    to_post_ = to_post_->next;
  }
  // The first one is done, and leaves the stream.
  RmaRequest& take() {
    RmaRequest& taken = *first_;
    if (taken.number != 0) done_signal_ = taken.number;
    if (to_post_ == first_) to_post_ = taken.next;
    first_ = taken.next;
    taken.state = RmaRequest::State::kDone;
    return taken;
  }
  // A new epoch: everything that is not done is posted again, but for what the target has.
  void again() {
    for (RmaRequest* request = first_; request != nullptr; request = request->next) {
      if (isPlanted(Mistake::kRepeatsTooLittle) && request->state == RmaRequest::State::kPosted)
        request->certain = true;
      request->state = RmaRequest::State::kWaiting;
      request->pieces = 0;
    }
    to_post_ = first_;
    uncovered = 0;
  }
  // The target has applied all signals up to `number`: what belongs to them, and what was put before them, is
  // certain.
  void applied(uint64_t number) {
    if (isPlanted(Mistake::kRepeatsWhatIsCertain)) return;
    RmaRequest* last = nullptr;
    for (RmaRequest* request = first_; request != nullptr; request = request->next) {
      if (request->number != 0 && request->number <= number) last = request;
    }
    for (RmaRequest* request = first_; last != nullptr; request = request->next) {
      if (request->kind == RmaRequest::Kind::kPut) request->certain = true;
      if (request == last) break;
    }
  }

  // Bit i: queue pair i has carried data since the last signal, and is not the home of the stream.
  uint32_t uncovered = 0;
  // What is no larger than `direct_bytes` goes to this queue pair in one piece (PutWriter::postDirect()).
  // Null: nothing does in this epoch, or not yet.
  LaneQueuePair* direct = nullptr;
  uint64_t direct_bytes = 0;
  // Since when the next operation waits for a part that the peer has not registered yet; {}: it does not.
  Clock::time_point waits_since = {};

 private:
  RmaRequest* first_ = nullptr;
  RmaRequest* last_ = nullptr;
  RmaRequest* to_post_ = nullptr;
  uint64_t last_signal_ = 0;
  uint64_t done_signal_ = 0;
};

}  // namespace railwise::net
