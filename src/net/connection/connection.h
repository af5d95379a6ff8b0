// A connection carries messages in one direction: the process that called connect has a SendConnection, the
// process that called accept has a ReceiveConnection. This class is what both have: the queue pairs, grouped
// in lanes between the rails of both processes; the completion queues of the rails' devices; and the window
// (the memory that the peer writes into).
//
// Threads: NCCL's service thread creates and closes a connection. isend, irecv, iflush and test may be called
// by one thread at a time (NCCL's progress thread). From an irecv until the next test() all these calls must
// come from one thread. Registering memory at the same time is safe, because that touches only the device's
// cache. An error of the data path is logged once and is final: every later call returns it. Closing a
// connection is safe at any time, even with work outstanding.
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/settings/config.h"
#include "base/socket.h"
#include "net/connection/request.h"
#include "net/device/device.h"
#include "net/paths/arrival_proof.h"
#include "net/paths/connection_options.h"
#include "net/paths/endpoint.h"
#include "net/paths/failback.h"
#include "net/paths/joiner.h"
#include "net/paths/offer.h"
#include "net/paths/recovery.h"
#include "net/paths/recovery_log.h"
#include "net/paths/search_log.h"
#include "net/paths/silence.h"
#include "net/patience.h"
#include "net/protocol/transport_rules.h"
#include "net/protocol/wire.h"
#include "net/wireup/handshake.h"
#include "net/wireup/side_channel.h"
#include "record/writer.h"

namespace railwise::net {

class Context;

class Connection {
 public:
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  // In memory: the page of the record, then the queue pairs, then the connection.
  static void* operator new(std::size_t bytes);
  static void operator delete(void* connection, std::size_t bytes);

  Direction direction() const { return direction_; }
  const Device& device() const { return device_; }
  // The communicator that owns this connection. It is set when the connection is handed to NCCL.
  Context* owner() const { return owner_; }
  void setOwner(Context* owner) { owner_ = owner; }
  MemoryCache& memory() const { return device_.memory(); }
  // "host:pid (mlx5_1)" of the peer. Valid once the peer's description has arrived.
  const std::string& peer() const { return peer_; }

  // Takes over the socket of the finished handshake as the side channel. The side channel carries the frames
  // of a recovery, and when it ends the peer has gone. `resume_port`: where the peer resumes side channels.
  void attach(Socket socket, const Session& session, uint16_t resume_port);
  // Writes the peer into the record while the connection comes up. `peer`: "host:pid". `pair_id`: the number
  // that both ends have of the listener's secret.
  void recordPeer(std::string_view peer, uint64_t pair_id);
  // Writes into the record why the connection is not up yet.
  void recordProblem(std::string_view problem) { record::setState(shown(), shown().state, problem); }
  const record::ConnectionRecord& recorded() const { return const_cast<Connection*>(this)->shown(); }

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
  // Second fast path of test(), for a request that is not yet known to be complete: polls the only completion
  // queue once. Most polls find nothing. Null: only testSlowPath() can answer.
  [[gnu::always_inline]] static std::optional<bool> testByOnePoll(Request& request, int* sizes) {
    Connection& connection = *request.connection;
    if (connection.only_cq_ == nullptr || connection.needs_slow_test_ ||
        (request.count != 1 && request.complete()) || request.kind == Request::Kind::kFree ||
        request.kind == Request::Kind::kFlush)
      return std::nullopt;
    ibv_wc completions[kPollBatch];
    const int count = ibv_poll_cq(connection.only_cq_, kPollBatch, completions);
    if (count == 0) [[likely]]
      return connection.maySkipIdle() ? std::optional(false) : std::nullopt;
    connection.handleCompletions(completions, count);
    return testIfKnown(request, sizes) ? std::optional(true) : std::nullopt;
  }
  // The rest of test(): requests with several sizes, connections with several completion queues, flushes, and
  // what follows a failure.
  virtual Status testSlowPath(Request& request, bool* done, int* sizes) = 0;

  // The rails in use: the rails of the device, until one of them fails.
  const std::vector<Rail>& rails() const { return endpoint_.rails; }
  // The number of the epoch, from 1. Each new set of queue pairs begins a new epoch.
  uint64_t epoch() const { return recovery_.epoch(); }
  bool running() const { return recovery_.running(); }

  std::size_t queuePairs() const { return endpoint_.queue_pairs.size(); }
  // Sender, once it is connected: the number of lanes that reach the peer.
  std::size_t lanesInUse() const { return endpoint_.lanes.size(); }

 protected:
  Connection(Direction direction, const Device& device, const ConnectionOptions& options);
  ~Connection();

  // Makes a queue pair in state INIT on `rail`. It takes messages out of order if out_of_order_ is set.
  Status addQueuePair(uint8_t rail, verbs::QueuePairSize size);
  // This end, for the functions of paths/offer.h.
  OfferingEnd own() const { return {device_, options_, *joiner_, out_of_order_}; }
  // May the connection begin without a path, in the state of a connection that has just lost all its paths?
  bool mayBeginLost() const { return config_.failover != 0; }
  bool mustBeginLost() const { return mayBeginLost() && !railsWork(endpoint_.rails); }
  std::string whyLost() const;
  // Makes the first queue pairs by `make`, and again for some milliseconds while a device refuses them: it
  // may lack something for a moment, or have failed, which its event has not said yet.
  Status makeFirst(const std::function<Status()>& make);
  // After a device has refused the first queue pairs: may the connection begin without them, because this end
  // has another rail that accepts one? `refused`: what, for the line that says so.
  bool goesElsewhere(const char* refused);
  // Takes over from the peer's description: the peer's name, the keys of the peer's window, and the largest
  // work request of each queue pair.
  void adopt(const EndInfo& remote);
  // What joiner_ connects: the queue pairs of the endpoint. `local`, `remote`: the descriptions of both ends.
  Joiner::Ends ends(const EndInfo& local, const EndInfo& remote) {
    return {epoch(), endpoint_, local, remote};
  }

  // ---- the record (record/layout.h): the numbers and counts of this connection lie there

  record::ConnectionRecord& shown() {
    return *reinterpret_cast<record::ConnectionRecord*>(reinterpret_cast<std::byte*>(this) - kRecordDistance);
  }
  record::ConnectionNumbers& numbers() { return shown().numbers; }
  const record::ConnectionNumbers& numbers() const { return const_cast<Connection*>(this)->numbers(); }
  // All receives up to this number are complete. A receiver counts them; a sender knows them from the
  // receiver.
  SharedNumber& arrivedUpTo() { return reinterpret_cast<SharedNumber&>(numbers().arrived); }
  uint64_t arrivedUpTo() const { return numbers().arrived; }
  // Sender: the oldest receive for which not all work requests are posted.
  SharedNumber& nextPost() { return reinterpret_cast<SharedNumber&>(numbers().posted); }
  uint64_t nextPost() const { return numbers().posted; }
  // The memory of the queue pairs, between the page of the record and this object.
  record::ConnectionPage& page() { return record::PageMemory::pageOf(queuePairMemory()); }
  void* queuePairMemory() { return reinterpret_cast<std::byte*>(this) - QueuePairs::kBytes; }
  LaneQueuePair& queuePair(std::size_t index) {
    return static_cast<LaneQueuePair*>(queuePairMemory())[index];
  }

  // Describes the epoch in the record: peer, rail pairs, queue pairs. Called when an epoch begins.
  void describeInRecord();
  void noteEvent(record::EventKind kind, std::string_view text, const LaneQueuePair* queue_pair = nullptr,
                 std::array<uint64_t, 3> numbers = {});
  uint16_t recordRail(const LaneQueuePair& queue_pair) const;
  void countError(const LaneQueuePair* queue_pair, record::ErrorKind kind);
  // Counts `polled` completions of completion queue `queue` of the endpoint.
  void countCompletions(std::size_t queue, int polled) {
    if (polled <= 0) return;
    (queue == 0 ? numbers().completions : shown().more_completions[queue - 1]) +=
        static_cast<uint64_t>(polled);
  }

  // test() tells NCCL that `request` is complete.
  void free(Request& request) {
    request.kind = Request::Kind::kFree;
    numbers().complete = std::max(numbers().complete, request.number);
  }

  // Sends the close message and ends the side channel. The close message has the reason, and from a receiver
  // also what has arrived.
  void endSideChannel(std::string_view reason);
  // Has the peer ended its side channel? All frames that the peer sent before are then handled.
  bool peerHasEnded();

  // Logs the failure, keeps it in failure_ and returns it. Ends the side channel, so that the peer learns of
  // the failure.
  Status fail(Status status, const std::string& what);
  // A queue pair (null: no particular one), a port or a path is lost. If the connection can fail over, a
  // recovery begins and lose() returns success; messages under way will be sent again. Otherwise the
  // connection fails.
  Status lose(const LaneQueuePair* queue_pair, Status status, const std::string& what);
  // leaveEpoch(): the steps that are the same for every reason to leave an epoch. beginEpoch(): the steps
  // that both ends take when a later epoch begins.
  void leaveEpoch(const std::string& why);
  void beginEpoch();
  // Reports the latest arrival to log_. `keep_last`: the newest failure in log_ came after that arrival, so
  // log_ keeps it.
  void noteProgress(bool keep_last = false);
  // From now on no call takes the fast path.
  void stopFastPath();
  // A call has failed. `refused`: the first work request of a list that was not accepted; null: they count
  // nowhere.
  Status failPost(LaneQueuePair& queue_pair, const char* call, int error,
                  const ibv_send_wr* refused = nullptr);
  Status losePoll(const ibv_cq* cq);
  Status failCompletion(const LaneQueuePair& queue_pair, const ibv_wc& completion, const char* operation);
  // iWARP: does this completion say only that the TCP connection has ended? An ordinary end of the peer's,
  // too, flushes what is posted. Then the connection waits a little for what the peer says
  // (checkDisconnection()).
  bool noteDisconnection(const LaneQueuePair& queue_pair, const ibv_wc& completion, const char* operation);
  void noteDisconnection(const LaneQueuePair& queue_pair, std::string what, Clock::time_point now);
  // A function that has nothing to do but wait calls idle(). On every 256th idle poll, or when the bell has
  // rung, idle() checks whether the peer is still there. After the peer has left, a wait for the peer's next
  // step (kPeer) ends soon; a wait for an acknowledgement (kAcknowledgement) lasts longer, because the
  // acknowledgement may still be on the wire.
  enum class Waiting : uint8_t { kPeer, kAcknowledgement };
  Status idle(Waiting waiting) {
    const bool nothing_new = (++idle_polls_ & kIdleMask) != 0 && !bell_.raised();
    return nothing_new ? Status::success() : checkPeer(waiting);
  }
  // Like idle(), for a call whose first poll found nothing. False: the caller must call idle().
  bool maySkipIdle() {
    if (((idle_polls_ + 1) & kIdleMask) == 0 || bell_.raised()) return false;
    ++idle_polls_;
    return true;
  }

  Status checkPeer(Waiting waiting);
  // Writes into the record what the connection waits for, and since when its oldest message is open.
  void noteLook(Clock::time_point now, Waiting waiting);
  // Handles the completions of the only completion queue. `count` negative: the queue cannot be polled. A
  // failure is kept in failure_.
  virtual void handleCompletions(const ibv_wc* completions, int count) noexcept = 0;
  // What handleCompletions() of both ends has in common. `handle` takes one completion; false: the rest is
  // not handled.
  template <typename Handle>
  void handleEach(const ibv_wc* completions, int count, Handle handle) noexcept {
    try {
      completed_since_check_ = true;
      if (count < 0) [[unlikely]] {
        (void)losePoll(only_cq_);
        return;
      }
      numbers().completions += static_cast<uint64_t>(count);
      for (int i = 0; i < count && handle(completions[i]); ++i) {
      }
    } catch (const std::bad_alloc&) {  // there was no memory to put a failure into words
      failure_ = {Code::kInternal, ENOMEM};
      stopFastPath();
    }
  }
  // Allows test() to poll the only completion queue on its fast path, if the connection has exactly one.
  void allowTestByOnePoll() {
    const bool one = endpoint_.cqs.size() == 1 && endpoint_.oneQueuePair() && rules_.has_immediates;
    only_cq_ = one ? endpoint_.cqs.front().get() : nullptr;
  }

  static constexpr int kPollBatch = 16;
  // The waits of this connection.
  Patience patience() const { return Patience(config_.failover_timeout_s); }

  // ---- failover (connection/failover.cc; docs/transport.md)

  using Phase = Recovery::Phase;
  Phase phase() const { return recovery_.phase(); }
  bool canFailOver() const;
  // Drives the recovery: tears down, waits or connects, as far as that is possible now. Success: the
  // connection has not failed.
  Status recover();
  // Handles the frames that the peer has sent over the side channel.
  Status hear();
  // Replaces the endpoint by one on the rails of the next epoch, still without queue pairs.
  void takeRails(std::vector<Rail> rails);
  // Makes a queue pair for a trial, which belongs to no epoch. Errors: kSystem, logged.
  static Result<TrialQueuePair> openTrial(const Rail& rail, const Config& config);
  // Events of the rails ring the bell (`on`), or no longer do. This covers the endpoint's rails and the
  // device's own rails, which may come back.
  void listenToRails(bool on);
  // At the end of the connection, or of an attempt: begins to stop the endpoint if its paths may not work, so
  // that this thread need not wait for their destruction.
  void stopLostQueuePairs() noexcept;
  // Destroys the endpoint of this epoch. A device neither reads nor writes memory for a destroyed queue pair.
  void dropEndpoint();
  // "mlx5_1 port 1 -> mlx5_3 port 1"
  std::string pathText(const LaneQueuePair& queue_pair) const {
    return endpoint_.pathText(queue_pair, epoch_there_, direction_);
  }
  // "mlx5_1: connection to host:pid (mlx5_3)"
  std::string title() const {
    return device_.name() + std::string(": connection ") +
           (direction_ == Direction::kSend ? "to " : "from ") + peer_;
  }
  // Counts the time without a path. After RAILWISE_FAILOVER_TIMEOUT the connection fails.
  Status giveUpInTime();
  Status countUnproven(Clock::duration since_last_check);
  Status giveUpWhenLost();
  Status peerLeft();
  void ringBellWhileRecovering() {
    if (!running()) bell_.ring();
  }

  const Device& device_;
  const ConnectionOptions options_;
  const Config& config_;
  const TransportRules& rules_;
  Recovery recovery_;
  RecoveryLog log_;
  SearchLog search_;
  Session session_ = {};  // proves calls of RDMA CM, has the packet numbers
  EndInfo epoch_here_ = {};
  EndInfo epoch_there_ = {};
  Silence silence_;

  // What shows that the peer has left.
  struct Departure {
    std::string reason;             // the reason in the peer's close message
    Clock::time_point since = {};   // when it was first seen that the peer has left
    bool seen_in_recovery = false;  // the end of the side channel was seen during a recovery
  };
  Departure departure_;
  std::string why_lost_;  // the reason, where a device has refused the first queue pairs
  // A queue pair of this epoch was disconnected, by the peer or because its TCP connection broke. The peer
  // may be about to say why over the side channel.
  struct Disconnection {
    Clock::time_point since = {};
    uint8_t queue_pair = 0;
    std::string what;  // "": none
  };
  Disconnection disconnection_;
  ArrivalProof proof_;
  bool out_of_order_ = false;
  std::shared_ptr<Window> window_;  // shared with queue pairs that are being destroyed

  // ---- Members that every message reads. They share few cache lines, because a thread with many connections
  // fetches each line again for each message.
  alignas(64) const Direction direction_;
  bool tested_since_send_ = false;  // test() was called since the last isend
  // test() must do more than poll: some work request is not posted, or a batch has not requested its
  // completion yet.
  bool needs_slow_test_ = false;
  bool completed_since_check_ = false;  // something has completed since the last checkPeer()
  uint32_t idle_polls_ = 0;
  // The only completion queue. Null: there are several, or the fast path is closed.
  ibv_cq* only_cq_ = nullptr;
  uint64_t peer_window_ = 0;
  Status failure_;
  verbs::FatalFlag bell_;  // the bell; also raised by an event of one of the queues
  Endpoint endpoint_;      // replaced with each epoch

  // ---- the rest
  std::unique_ptr<Joiner> joiner_;  // connects the queue pairs of endpoint_; never null
  // The destructor of SideChannel first unregisters the channel from the watcher, whose thread reads
  // arrivedUpTo() or nextPost() and rings bell_.
  SideChannel side_channel_{bell_, direction_,
                            direction_ == Direction::kReceive ? arrivedUpTo() : nextPost()};

 private:
  static constexpr uint32_t kIdleMask = 0xff;
  // Link diagnosis (paths/diagnosis.h). "": nothing is found. Many completion statuses can have such a cause:
  // a flush (Soft-RoCE), exhausted retries, or an unexpected end of the connection. Without failover the
  // device is asked.
  std::string diagnose(const LaneQueuePair& queue_pair) const;
  // Link diagnosis for an error that comes without a reason. Waits a short time for the reason, unless the
  // peer has left.
  std::string awaitDiagnosis(const LaneQueuePair& queue_pair);
  std::string reasonFor(const LaneQueuePair& queue_pair, ibv_wc_status status);
  // Was a queue pair disconnected, or its device removed?
  Status checkJoined(Clock::time_point now);
  // Counts the time in which nothing has completed. After a limit it loses the queue pair or fails: the
  // device owes a completion, or the peer's device owes an answer.
  Status checkSilence(Clock::duration since_last_check);
  Status checkSends();
  Status checkStall();
  uint64_t pathKey(const LaneQueuePair& queue_pair) const;
  Status hearSuspicions();
  // The suspicions so far do not concern this epoch.
  void skipSuspicions() {
    for (std::size_t rail = 0; rail < endpoint_.rails.size(); ++rail)
      suspicions_heard_[rail] = endpoint_.rails[rail].hca->state().news().suspicions();
  }
  Status checkDisconnection(Clock::time_point now);
  void lookAtPorts();
  // An event has reported that a queue or a device is lost (NCCL_IB_RETURN_ASYNC_EVENTS).
  Status checkEvents(std::optional<ibv_event_type> event);
  Status onFrame(std::span<const std::byte> frame);
  void onClose(const CloseFrame& frame);

  // ---- What SendConnection and ReceiveConnection do differently. No call here is on the fast path.
  // From now on no call takes the fast path of this end.
  virtual void leaveFastPath() = 0;
  // The next step of this end in a recovery: tears down, waits for the peer, connects the next epoch.
  virtual Status advanceRecovery() = 0;
  // Handles a frame that only the peer's direction sends. Errors: kRemote (this end expects no such frame).
  virtual Status onPeerFrame(MessageType type, std::span<const std::byte> bytes) = 0;
  // The peer's close message has arrived. It says that all receives up to `number` are complete.
  virtual void onLastArrived(uint64_t /*number*/) {}
  // Ports of this end have changed while the connection runs.
  virtual void onPortsChanged() = 0;
  // The bell has rung while the connection runs: goes on with a trial of the peer.
  virtual void goOnWithTrial() {}
  // Called while the connection runs and waits: it may look for better rail pairs.
  virtual void lookForBetter(Clock::time_point /*now*/) {}
  // Requests a completion for the work requests that no signalled work request covers; a sender polls first.
  // `anew`: requests a completion in any case.
  virtual Status requestCompletions(bool anew) = 0;
  // Bytes of the largest message that is under way, or may be; 0: there is none.
  virtual uint64_t largestUnderWay() const = 0;
  // The number of the oldest receive or message that is not complete, and its size in bytes; 0: there is
  // none.
  virtual uint64_t oldestOpen(uint64_t* bytes) const = 0;
  // Uses this epoch fewer or other rails than the first one?
  virtual bool degraded() const { return false; }
  void closeRecord();

  Context* owner_ = nullptr;
  Clock::time_point last_record_look_ = {};
  uint64_t record_lost_ns_ = 0;  // since when it has no path; 0: it has one
  uint64_t record_awaited_ = 0;  // the receive that it waited for at the last look
  uint32_t port_changes_ = 0;    // count of the rails' events at the last look at the ports
  // Count of the suspicions of each rail's device (PathNews) at the last look.
  std::array<uint64_t, kMaxRails> suspicions_heard_ = {};
  std::string peer_;
};

}  // namespace railwise::net
