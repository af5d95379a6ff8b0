// A group of ranks that put to each other: NCCL's collComm, and its contexts. A rank that this rank has not
// put to costs a handle and a pointer. The first put to a rank makes a PutWriter, which calls the rank;
// whoever puts to this rank gets a PutTarget here. docs/develop/rma-protocol.md has the protocol.
//
// Threads: windows may be registered and deregistered, contexts made and destroyed, by any thread, while
// another thread puts, tests and drives the group. One lock for all of it: NCCL has one progress thread for a
// group.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/light_mutex.h"
#include "net/connector.h"
#include "net/many_listener.h"
#include "net/rma/attendant.h"
#include "net/rma/loopback.h"
#include "net/rma/own_rank.h"
#include "net/rma/put_target.h"
#include "net/rma/put_writer.h"
#include "net/rma/report.h"
#include "net/rma/slots.h"
#include "net/rma/stream.h"
#include "net/rma/window.h"

namespace railwise::net {

class RmaGroup;
class RmaNet;

// Flags of regMrSym (NCCL's mrFlags).
inline constexpr uint64_t kRmaStrongOrder = 1;  // FORCE_SO: no relaxed ordering
inline constexpr uint64_t kRmaNeverReset = 2;   // SIGNAL_NEVER_RESET: nobody sets signals in it back

// NCCL's rmaCtx: some streams to each rank. Operations of a stream complete in their order. One thread at a
// time for the operations of a context.
class RmaContext {
 public:
  // Puts `bytes` from `from`, in this rank's part, to `to`, in the part of `rank`, and then adds the signal.
  // `context` counts from 0. `bytes` 0: the signal alone, the windows of the data may be null. Errors:
  // kInvalidArgument, logged (no such rank or context, beyond the end of a part, a signal that is not
  // aligned to 8 bytes); kRemote, kSystem (the group has failed).
  [[gnu::always_inline]] Status put(int context, const RmaPlace& from, std::size_t bytes, const RmaPlace& to,
                                    uint32_t rank, RmaRequest** request) {
    return start<RmaRequest::Kind::kPut, false>({context, from, to, bytes, rank, {}}, request);
  }
  [[gnu::always_inline]] Status putSignal(int context, const RmaPlace& from, std::size_t bytes,
                                          const RmaPlace& to, uint32_t rank, const RmaSignal& signal,
                                          RmaRequest** request) {
    return start<RmaRequest::Kind::kPut, true>({context, from, to, bytes, rank, signal}, request);
  }
  // Reads `bytes` from `from`, in the part of `rank`, to `to` in this rank's part.
  [[gnu::always_inline]] Status get(int context, const RmaPlace& from, std::size_t bytes, const RmaPlace& to,
                                    uint32_t rank, RmaRequest** request) {
    return start<RmaRequest::Kind::kGet, false>({context, to, from, bytes, rank, {}}, request);
  }
  // Makes what gets have brought visible to this rank's GPU. `window` may be null. *request null: there is
  // nothing to wait for.
  Status flush(int context, RmaWindow* window, uint32_t rank, RmaRequest** request);
  // Drives the whole group: connections of peers, what waits, signals that have arrived.
  Status progress();
  // From any thread: the group has failed.
  bool failed() const;
  RmaGroup& group() const { return group_; }
  // Ends the context; operations that are open are dropped. Never waits for the network.
  static void destroy(RmaContext* context);

 private:
  friend class RmaGroup;
  // A put or get. `here` is in this rank's part, `there` in the other rank's.
  struct Operation {
    int context;
    RmaPlace here;
    RmaPlace there;
    uint64_t bytes;
    uint32_t rank;
    RmaSignal signal;
  };

  RmaContext(RmaGroup& group, std::vector<uint16_t> streams) : group_(group), streams_(std::move(streams)) {}

  // Starts an operation: at once where it can be posted, which is the way of nearly all; else slowly.
  template <RmaRequest::Kind kKind, bool kSignals>
  [[gnu::always_inline]] Status start(const Operation& operation, RmaRequest** request);
  template <RmaRequest::Kind kKind, bool kSignals>
  [[gnu::always_inline]] RmaRequest* startAtOnce(const Operation& operation);
  Status startSlowly(RmaRequest::Kind kind, bool signals, const Operation& operation, RmaRequest** request);

  RmaGroup& group_;
  const std::vector<uint16_t> streams_;  // the stream of each context
};

class RmaGroup final : private Attended {
 public:
  ~RmaGroup();

  // Makes `contexts` (at least one) streams to each rank. Local: no rank waits for another one. Errors:
  // kInvalidArgument, logged (too many contexts).
  Result<RmaContext*> createContext(int contexts, int traffic_class);
  // Registers this rank's part of a window. All ranks do this in the same order, each for its own part; a
  // registration that fails does not count. Errors: as of MemoryCache::acquire().
  Result<RmaWindow*> registerMemory(uint64_t address, std::size_t bytes, MemoryKind kind, uint64_t flags);
  Result<RmaWindow*> registerDmaBuf(uint64_t address, std::size_t bytes, uint64_t offset, int fd,
                                    uint64_t flags);
  // Also after the contexts were destroyed.
  void deregister(RmaWindow* window);
  // Is the request done? Then it is freed, and *done becomes 1. If not, this drives the group. Errors: as the
  // request's context.
  Status test(RmaRequest& request, int* done) {
    const std::lock_guard lock(mutex_);
    if (request.state != RmaRequest::State::kDone) {
      const Status progressed = progressFor(request);
      if (request.state != RmaRequest::State::kDone) return progressed;
    }
    *done = 1;
    giveRequest(request);
    return Status::success();
  }
  static void close(RmaGroup* group);

 private:
  friend class RmaContext;
  friend class RmaNet;

  // What this rank puts to another one.
  struct Peer {
    RmaStreams streams;
    std::unique_ptr<Connector<PutWriter>> connector;
    std::unique_ptr<PutWriter> writer;
    bool gone = false;  // it has closed its group
  };

  RmaGroup(RmaNet& owner, const Device& device, const ConnectionOptions& options,
           std::unique_ptr<ManyListener<PutTarget>> listener, std::vector<ListenHandle> handles, int rank);

  // Everything is the parent's: its queue pairs, its TCP connections, and the lock, which a thread that is
  // not here may hold.
  bool inForkedChild() const { return device_.inForkedChild(); }
  void attend() noexcept override;

  // These are called with the lock held.
  Status progress() {
    return orFail([this] { return progressAll(); });
  }
  Status progressAll();
  // As far as a request needs it.
  Status progressFor(const RmaRequest& request);
  Status acceptCallers();
  Result<std::unique_ptr<PutTarget>> makeTarget(const EndInfo& request, std::string& refusal);
  Status advance(uint32_t rank, Peer& peer);
  Status connect(uint32_t rank, Peer& peer);
  Status post(uint32_t rank, RmaRequest& request);
  Result<Peer*> peerOf(uint32_t rank);
  Status fail(Status status, const std::string& what);
  // Runs `body`, which returns a Status. Without memory in the middle of an operation nobody knows what was
  // posted and what was not: the group fails, so that nothing goes on from there.
  template <typename Body>
  [[gnu::always_inline]] Status orFail(Body&& body) noexcept {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return failWithoutMemory();
    }
  }
  [[gnu::cold]] Status failWithoutMemory() noexcept;
  // `lost`: the rank whose connection has failed; nothing: another reason, which was logged.
  Status failed(Status status, std::optional<uint32_t> lost = std::nullopt);
  Status watchLoopback();
  RmaRequest& takeRequest(RmaContext& context, RmaRequest::Kind kind, uint16_t stream, uint32_t rank);
  void giveRequest(RmaRequest& request) {
    request.kind = RmaRequest::Kind::kFree;
    request.next = free_requests_;
    free_requests_ = &request;
  }
  Status checkRank(const RmaContext& context, int stream, uint32_t rank) const;
  Status checkPlace(const char* what, const RmaPlace& place, uint64_t bytes, uint32_t rank) const;
  // checkPlace() finds nothing wrong with the window, whose part of this rank `bytes` fit into.
  bool isOwn(const RmaWindow* window) const { return window != nullptr && window->group == this; }
  Result<RmaWindow*> add(Result<MemoryHandle*> memory, const Part& part, uint64_t flags, bool dma_buf);
  Status refusal(const MemoryHandle& memory);
  RmaWindow& addWindow(const Part& part, MemoryHandle* memory);
  Status tellOf(const RmaWindow& window);
  void abandonStreams(const RmaContext& context);

  RmaNet& owner_;
  const Device& device_;
  const int rank_;
  const std::vector<ListenHandle> handles_;
  LightMutex mutex_;
  ConnectionOptions options_;
  Status failure_;
  std::atomic<bool> has_failed_ = false;
  std::vector<std::unique_ptr<RmaWindow>> windows_;  // by number
  std::size_t live_ = 0;                             // those that are registered
  std::optional<Part> tried_;                        // a dma-buf that could not be registered
  std::vector<std::unique_ptr<RmaContext>> contexts_;
  uint64_t streams_in_use_ = 0;
  std::vector<std::unique_ptr<RmaRequest[]>> request_memory_;
  RmaRequest* free_requests_ = nullptr;
  DirectPost direct_;
  Loopback loopback_;
  SignalSlots slots_{loopback_};
  OwnRank own_{loopback_, slots_, windows_};
  std::unique_ptr<ManyListener<PutTarget>> listener_;
  std::vector<std::unique_ptr<PutTarget>> targets_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null: nothing was put to it
  std::vector<uint32_t> ranks_in_use_;        // those that are not null
  uint32_t looks_ = 0;
  uint32_t tests_ = 0;     // of requests that are not done
  uint32_t attended_ = 0;  // looks_ at the last attend()
  std::shared_ptr<Attendant> attendant_ = Attendant::ofProcess();
  uint64_t looped_ = 0;  // work requests of the loopback that were complete at loop_progress_
  Clock::time_point loop_progress_ = {};
};
inline Status RmaContext::progress() {
  const std::lock_guard lock(group_.mutex_);
  return group_.progress();
}

template <RmaRequest::Kind kKind, bool kSignals>
inline Status RmaContext::start(const Operation& operation, RmaRequest** request) {
  if (RmaRequest* const started = startAtOnce<kKind, kSignals>(operation); started != nullptr) [[likely]] {
    *request = started;
    return Status::success();
  }
  const Operation again = operation;  // a copy, so that the operation itself stays in registers
  return startSlowly(kKind, kSignals, again, request);
}

// Null: nothing is done.
template <RmaRequest::Kind kKind, bool kSignals>
inline RmaRequest* RmaContext::startAtOnce(const Operation& operation) {
  const std::lock_guard lock(group_.mutex_);
  if (static_cast<std::size_t>(operation.context) >= streams_.size() ||
      operation.rank >= group_.peers_.size())
    return nullptr;
  RmaGroup::Peer* const peer = group_.peers_[operation.rank].get();
  const uint16_t number = streams_[static_cast<std::size_t>(operation.context)];
  if (peer == nullptr || number >= peer->streams.size()) return nullptr;
  RmaStream& stream = peer->streams[number];
  RmaRequest* const request = group_.free_requests_;
  if (stream.direct == nullptr || request == nullptr) return nullptr;
  PutWriter& writer = *peer->writer;
  const auto& [index, here, there, bytes, rank, signal] = operation;
  const Region* region = nullptr;
  if (bytes > 0) {
    if (!group_.isOwn(here.window) || !here.window->holds(here.offset, bytes) || !group_.isOwn(there.window))
      return nullptr;
    region = writer.reach(there.window->number, there.offset, bytes);
    if (region == nullptr) return nullptr;
  }
  if (kSignals && (!group_.isOwn(signal.at.window) || signal.at.offset % sizeof signal.value != 0 ||
                   writer.reach(signal.at.window->number, signal.at.offset, sizeof signal.value) == nullptr))
    return nullptr;
  // From here on the operation is taken.
  group_.free_requests_ = request->next;
  request->begin(*this, kKind, number, rank);
  request->bytes = bytes;
  if (bytes > 0) request->place(here, there);
  if constexpr (kSignals) {
    request->number = stream.nextSignal();
    request->signal(signal);
  }
  stream.add(*request);
  writer.noteAdded(kKind);
  if (stream.toPost() != request) return request;  // others wait before it
  const bool direct =
      PutWriter::fitsDirect(stream, bytes, kSignals) && writer.hasRoom(*stream.direct, kSignals);
  const Status status = group_.orFail([&]() __attribute__((always_inline)) {
    return direct ? writer.postDirect(stream, region, kKind, kSignals) : writer.postOrWait(stream);
  });
  if (!status.ok()) [[unlikely]]
    (void)group_.failed(status, rank);  // the next call says so
  return request;
}

static_assert(kMostStreams == 64, "RmaGroup::streams_in_use_ has a bit for each");
static_assert(kMostStreams <= kMostWords);

}  // namespace railwise::net
