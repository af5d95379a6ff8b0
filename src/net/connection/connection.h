// A connection is what NCCL holds. It carries messages in one direction: the process that called connect has
// a SendConnection, the process that called accept has a ReceiveConnection. This class is what both have: a
// link to the peer (paths/link.h), and test().
//
// Threads: NCCL's service thread creates and closes a connection. isend, irecv, iflush and test may be called
// by one thread at a time (NCCL's progress thread). From an irecv until the next test() all these calls must
// come from one thread. Registering memory at the same time is safe, because that touches only the device's
// cache. An error of the data path is logged once and is final: every later call returns it. Closing a
// connection is safe at any time, even with work outstanding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "net/connection/request.h"
#include "net/paths/link.h"

namespace railwise::net {

class Context;

class Connection : public LinkMemory, protected LinkUser {
 public:
  Direction direction() const { return link_.direction; }
  const Device& device() const { return link_.device; }
  // The communicator that owns this connection. It is set when the connection is handed to NCCL.
  Context* owner() const { return owner_; }
  void setOwner(Context* owner) { owner_ = owner; }
  MemoryCache& memory() const { return link_.device.memory(); }
  Link& link() { return link_; }
  const std::string& peer() const { return link_.peer; }
  const record::ConnectionRecord& recorded() const { return shown(); }

  // Has `request` completed? If so, test() writes the sizes to `sizes` (may be null) and frees the request. A
  // send has one size, a receive has `count` sizes, a flush has none. Never blocks. Errors: kRemote, kSystem.
  Status test(Request& request, bool* done, int* sizes) {
    *done = testIfKnown(request, sizes);
    if (*done) return Status::success();
    const std::optional<bool> soon = testByOnePoll(request, sizes);
    if (!soon) return testSlowPath(request, done, sizes);
    *done = *soon;
    return Status::success();
  }
  // Fast path of test(): true only if the request is already known to be complete and has a single size. It
  // does not poll.
  static bool testIfKnown(Request& request, int* sizes) {
    request.connection->tested_since_send_ = true;
    if (request.count != 1 || !request.complete() || request.kind == Request::Kind::kFree) return false;
    if (sizes != nullptr) sizes[0] = static_cast<int>(request.bytes);
    request.connection->free(request);
    return true;
  }
  // Second fast path of test(), for a request that is not yet known to be complete: polls each completion
  // queue once at most. Most polls find nothing. Null: only testSlowPath() can answer.
  [[gnu::always_inline]] static std::optional<bool> testByOnePoll(Request& request, int* sizes) {
    Connection& connection = *request.connection;
    Link& link = connection.link_;
    if (link.only_cq == nullptr || needsSlowTest(request)) return testByMorePolls(request, sizes);
    ibv_wc completions[Link::kPollBatch];
    const int count = ibv_poll_cq(link.only_cq, Link::kPollBatch, completions);
    if (count == 0) [[likely]]
      return link.maySkipIdle() ? std::optional(false) : std::nullopt;
    connection.handleCompletions(completions, count);
    if (testIfKnown(request, sizes) || testIfKnownGroup(request, sizes)) return true;
    return std::nullopt;
  }
  // The rest of test(): requests with several sizes, flushes, and what follows a failure.
  virtual Status testSlowPath(Request& request, bool* done, int* sizes) = 0;

  // The rails in use: the rails of the device, until one of them fails.
  const std::vector<Rail>& rails() const { return link_.endpoint.rails; }
  uint64_t epoch() const { return link_.epoch(); }
  bool running() const { return link_.running(); }
  std::size_t queuePairs() const { return link_.endpoint.queue_pairs.size(); }
  // Sender, once it is connected: the number of lanes that reach the peer.
  std::size_t lanesInUse() const { return link_.endpoint.lanes.size(); }

 protected:
  Connection(Direction direction, const Device& device, const ConnectionOptions& options)
      : link_(direction, *this, *this, device, options) {}
  ~Connection() { link_.close(); }

  // Only testSlowPath() can answer, however many completion queues there are.
  [[gnu::always_inline]] static bool needsSlowTest(const Request& request) {
    return request.connection->needs_slow_test_ || (request.count != 1 && request.complete()) ||
           request.kind == Request::Kind::kFree || request.kind == Request::Kind::kFlush;
  }
  // testByOnePoll() where there are several completion queues.
  static std::optional<bool> testByMorePolls(Request& request, int* sizes) {
    const Link& link = request.connection->link_;
    if (link.only_cq != nullptr || link.next_cq == nullptr || needsSlowTest(request))
      return testIfKnownGroup(request, sizes) ? std::optional(true) : std::nullopt;
    return link.polls_all ? testByAllPolls(request, sizes) : testByTurns(request, sizes);
  }
  // The queues take turns in being polled first: small messages alternate over the lanes at both ends, so the
  // first poll mostly finds what there is.
  [[gnu::noinline]] static std::optional<bool> testByTurns(Request& request, int* sizes) {
    Connection& connection = *request.connection;
    Link& link = connection.link_;
    uint32_t found = 0;  // queues that had completions
    for (uint32_t left = link.more_cqs;; --left) {
      ibv_wc completions[Link::kPollBatch];
      const int count = ibv_poll_cq(link.next_cq, Link::kPollBatch, completions);
      if (count != 0) {
        ++found;
        link.countNext(count);
        connection.handleCompletions(completions, count);
        if (link.next_cq == nullptr) [[unlikely]]
          return std::nullopt;
      }
      link.takeCqTurn();
      if (count != 0 && (testIfKnown(request, sizes) || testIfKnownGroup(request, sizes))) {
        link.polls_all = found > 1;
        return true;
      }
      if (left == 0) return found == 0 && link.maySkipIdle() ? std::optional(false) : std::nullopt;
    }
  }
  // After a request that needed several queues, as a large message does: all are polled, and what they have
  // is handled together.
  [[gnu::noinline]] static std::optional<bool> testByAllPolls(Request& request, int* sizes) {
    Connection& connection = *request.connection;
    Link& link = connection.link_;
    ibv_wc completions[Link::kPollBatch];
    int count = 0;
    uint32_t found = 0;
    for (std::size_t queue = 0; queue <= link.more_cqs; ++queue) {
      ibv_cq* const cq = link.endpoint.cqs[queue].get();
      const int polled = ibv_poll_cq(cq, Link::kPollBatch - count, completions + count);
      if (polled == 0) continue;
      if (polled < 0) [[unlikely]] {
        connection.handleCompletions(completions, count);
        if (link.next_cq == nullptr) return std::nullopt;  // the link is lost already
        link.next_cq = cq;
        connection.handleCompletions(completions, polled);
        return std::nullopt;
      }
      link.countCompletions(queue, polled);
      count += polled;
      ++found;
    }
    if (found == 0) return link.maySkipIdle() ? std::optional(false) : std::nullopt;
    connection.handleCompletions(completions, count);
    const bool known = testIfKnown(request, sizes) || testIfKnownGroup(request, sizes);
    link.polls_all = found > 1 || !known;
    return known ? std::optional(true) : std::nullopt;
  }
  // Like testIfKnown(), for a receive of several messages.
  static bool testIfKnownGroup(Request& request, int* sizes) {
    return request.count > 1 && request.connection->testGroup(request, sizes);
  }
  // Of a receive of several messages; a sender has none.
  virtual bool testGroup(Request& /*receive*/, int* /*sizes*/) { return false; }
  // test() tells NCCL that `request` is complete.
  void free(Request& request) {
    request.kind = Request::Kind::kFree;
    numbers().complete = std::max(numbers().complete, request.number);
  }
  // Handles completions of the completion queue whose turn it is. `count` negative: the queue cannot be
  // polled. A failure is kept in the link.
  virtual void handleCompletions(const ibv_wc* completions, int count) noexcept = 0;
  // What handleCompletions() of both ends has in common. `handle` takes one completion. A failure does not
  // end the loop: what has completed counts.
  template <typename Handle>
  void handleEach(const ibv_wc* completions, int count, Handle handle) noexcept {
    try {
      link_.completed_since_look = true;
      if (count < 0) [[unlikely]] {
        (void)link_.losePoll(link_.next_cq);
        return;
      }
      if (link_.more_cqs == 0) [[likely]]  // else whoever polled has counted them
        numbers().completions += static_cast<uint64_t>(count);
      for (int i = 0; i < count; ++i) handle(completions[i]);
    } catch (const std::bad_alloc&) {  // there was no memory to put a failure into words
      link_.failWithoutMemory();
    }
  }

  // ---- Members that every message reads share the first cache line with the first members of the link.
  bool tested_since_send_ = false;  // test() was called since the last isend
  // test() must do more than poll: some work request is not posted, or a batch has not requested its
  // completion yet.
  bool needs_slow_test_ = false;
  Link link_;

 private:
  Context* owner_ = nullptr;
};

}  // namespace railwise::net
