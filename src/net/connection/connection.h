// A connection carries messages one way: SendConnection at the end that called connect, ReceiveConnection at
// the end that called accept. This is what both have: queue pairs in lanes between the rails of both ends,
// the completion queues of the rails' devices, and the window that the other end writes into.
//
// Threads: made and closed by NCCL's service thread; isend, irecv, iflush and test belong to one thread at a
// time (NCCL's progress thread), and between an irecv and the next test() to the same. Registering memory
// meanwhile is safe: it touches only the device's cache.
// Any error of the data path is logged once and sticks: every later call returns it. Closing with work
// outstanding is safe at any time.
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/socket.h"
#include "net/connection/endpoint.h"
#include "net/connection/request.h"
#include "net/device/device.h"
#include "net/protocol/wire.h"
#include "net/recovery/failback.h"
#include "net/recovery/recovery_log.h"
#include "net/recovery/silence.h"
#include "net/wireup/handshake.h"
#include "net/wireup/side_channel.h"

namespace railwise::net {

// What connect and accept need to know to build one end.
struct ConnectionOptions {
  const Config& config;
  const std::string& local_host;
  int traffic_class;    // the communicator's; negative: undefined
  int queue_pairs = 1;  // for each lane
  // What each rail can carry, Mb/s: its port's speed, or what the way to the GPU in use lets through.
  std::array<int, kMaxRails> rail_mbps = {};
  // Where the connection may go when its own rails are lost, best first.
  std::vector<Rail> standbys = {};
  int devices = 0;                  // physical ones of the process
  EventWatcher* watcher = nullptr;  // reads the side channel; null: nobody but the connection's thread
};

class Context;

class Connection {
 public:
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Direction direction() const { return direction_; }
  const Device& device() const { return device_; }
  // The communicator that owns this connection; set when it is handed out.
  Context* owner() const { return owner_; }
  void setOwner(Context* owner) { owner_ = owner; }
  MemoryCache& memory() const { return device_.memory(); }
  // "host:pid (mlx5_1)" of the other end; valid once its description is there.
  const std::string& peer() const { return peer_; }

  // The socket of the finished handshake stays open, for what follows a failure, and since its end tells of
  // the peer's death.
  void attach(Socket socket);

  // Has `request` completed? Then its sizes go to `sizes` (may be null): one for a send, `count` for a
  // receive, none for a flush; and the request is free. Never blocks. Errors: kRemote, kSystem.
  Status test(Request& request, bool* done, int* sizes) {
    *done = testKnown(request, sizes);
    if (*done) return Status::success();
    const std::optional<bool> soon = testSoon(request, sizes);
    if (!soon) return testOtherwise(request, done, sizes);
    *done = *soon;
    return Status::success();
  }
  // The same for one of which it is known already, and which has one size: without a call.
  static bool testKnown(Request& request, int* sizes) {
    request.connection->tested_ = true;
    if (request.count != 1 || !request.connection->known(request) || request.kind == Request::Kind::kFree)
      return false;
    if (sizes != nullptr) sizes[0] = static_cast<int>(request.bytes);
    request.kind = Request::Kind::kFree;
    return true;
  }
  // The same for one of which it is not known yet: one look at the completion queue, for most calls find
  // nothing. Null: it takes testOtherwise() to tell.
  [[gnu::always_inline]] static std::optional<bool> testSoon(Request& request, int* sizes) {
    Connection& connection = *request.connection;
    if (connection.only_cq_ == nullptr || connection.chores_ || request.done ||
        request.kind == Request::Kind::kFree || request.kind == Request::Kind::kFlush)
      return std::nullopt;
    ibv_wc completions[kPollBatch];
    const int count = ibv_poll_cq(connection.only_cq_, kPollBatch, completions);
    if (count == 0) [[likely]]
      return connection.maySkipIdle() ? std::optional(false) : std::nullopt;
    connection.takeIn(completions, count);
    return testKnown(request, sizes) ? std::optional(true) : std::nullopt;
  }
  virtual Status testOtherwise(Request& request, bool* done, int* sizes) = 0;

  // The rails in use: those of the device, until one of them fails.
  const std::vector<Rail>& rails() const { return endpoint_.rails; }
  // How often the queue pairs were made anew, from 1; and whether they are in use just now.
  uint64_t epoch() const { return epoch_; }
  bool running() const { return phase_ == Phase::kRunning; }

  std::size_t queuePairs() const { return endpoint_.queue_pairs.size(); }
  // Of the sender, once it is connected: lanes by which the peer can be reached.
  std::size_t lanesInUse() const { return endpoint_.lanes.size(); }

  // Can queue pairs of this device take messages in any order (NCCL_IB_OOO_RQ)? Both ends must be able to.
  static bool offersOutOfOrder(const Device& device, const Config& config);

 protected:
  Connection(Direction direction, const Device& device, const ConnectionOptions& options);
  ~Connection();

  // A queue pair in INIT on `rail`; out of order when out_of_order_ says so. `reserved`: of the send queue,
  // for what the data path does not count.
  Status addQueuePair(uint8_t rail, verbs::QueuePairSize size, uint32_t reserved);
  // What the peer must know of this end; the queue pairs follow when they are there. Errors: kSystem,
  // kInvalidUsage (no usable GID), logged.
  // `manager`: for RDMA CM, with its addresses instead of GIDs.
  Status describe(bool manager, EndInfo& end) const;
  void describeQueuePairs(EndInfo& end) const;
  // May the connection begin without a way, as one that has lost them all?
  bool mayBeginLost() const { return config_.failover != 0 && !wantsConnectionManager(); }
  // Can queue pairs be made on the device's rails, and one of them reach somebody?
  bool railsWork() const;
  bool mustBeginLost() const { return mayBeginLost() && !railsWork(); }
  std::string whyLost() const;
  // What the devices offer, or have agreed to.
  void describeEce(EndInfo& end) const;
  // What the other end's description settles: its name, the keys of its window, the size of pieces.
  void adopt(const EndInfo& remote);
  // Brings queue pair `index` to "ready to send" over these entries of both rails' lists of GIDs. ETIMEDOUT:
  // the way is not resolved yet (ARP); the same again later.
  Status bringUp(std::size_t index, const EndInfo& local, const EndInfo& remote, std::size_t local_gid,
                 std::size_t remote_gid);
  // Between which addresses a queue pair goes.
  struct WayEnds {
    const EndInfo& local;
    const EndInfo& remote;
    std::size_t local_rail;
    std::size_t remote_rail;
    std::size_t local_gid;
    std::size_t remote_gid;
  };
  // The same for any queue pair on `rail`; `index`: of it among those of `ends.remote`. `from`: where it
  // sends from.
  Status makeReady(ibv_qp* qp, const Rail& rail, const WayEnds& ends, std::size_t index,
                   verbs::Gid* from) const;
  // One line for who asks which way a connection took.
  void sayConnected(std::size_t index, const EndInfo& local, const EndInfo& remote, std::size_t local_gid,
                    std::size_t remote_gid) const;
  // iWARP knows no other way; elsewhere RAILWISE_CONNECT=cm asks for it.
  bool wantsConnectionManager() const;
  // The address of this rail for RDMA CM that has these bytes. Errors: kSystem, logged (it is gone).
  static Result<SocketAddress> managerAddress(const Rail& rail, const uint8_t* bytes);

  bool iwarp() const { return iwarp_; }

  // Is it known already that `request` has completed?
  bool known(const Request& request) const { return request.done || request.number <= known_number_; }

  // Tells the peer that this end will do nothing more, why, and a sender what has arrived before.
  void endSideChannel(const std::string& reason);
  // Has the peer ended its side channel? What it said before has then been heard.
  bool peerHasEnded();

  // Logs, remembers and returns the failure, and lets the peer know by the end of the side channel.
  Status fail(Status status, const std::string& what);
  // A queue pair (null: none in particular), a port or a way is lost. Where the connection can go another way
  // that begins, and this is a success: whatever is under way will be sent again. Else it fails.
  Status lose(const LaneQueuePair* queue_pair, Status status, const std::string& what);
  // What every end of an epoch has in common, and every begin.
  void leaveEpoch(const std::string& why);
  void beginEpoch();
  // `keep_last`: of the ways that were tried, the last one failed after that.
  void noteProgress(bool keep_last = false);
  // From now on no call takes the fast path.
  void stopFastPath();
  Status failPost(const LaneQueuePair& queue_pair, const char* call, int error);
  Status losePoll(const ibv_cq* cq);
  Status failCompletion(const LaneQueuePair& queue_pair, const ibv_wc& completion, const char* operation);
  // Called when there is nothing to do but wait: now and then looks whether the peer is still there. When it
  // has left, a wait for something it should still do (kPeer) is soon over; a kAcknowledgement may still be
  // on its way.
  enum class Waiting : uint8_t { kPeer, kAcknowledgement };
  Status idle(Waiting waiting) {
    const bool nothing_new = (++idle_polls_ & kIdleMask) != 0 && !lost_.raised();
    return nothing_new ? Status::success() : checkPeer(waiting);
  }
  // The same for a call that found nothing at its first look; false: idle() has something to look at.
  bool maySkipIdle() {
    if (((idle_polls_ + 1) & kIdleMask) == 0 || lost_.raised()) return false;
    ++idle_polls_;
    return true;
  }

  Status checkPeer(Waiting waiting);
  // Handles what the only completion queue has brought; `count` negative: the queue cannot be polled. A
  // failure is remembered.
  virtual void takeIn(const ibv_wc* completions, int count) noexcept = 0;
  // Remembers that there was no memory to put a failure into words.
  void failWithoutWords() noexcept {
    failure_ = {Code::kInternal, ENOMEM};
    stopFastPath();
  }
  // An RDMA write of no bytes into the peer's window. Its completion tells that all earlier work requests of
  // the queue pair are complete.
  ibv_send_wr emptyWrite(const LaneQueuePair& queue_pair) const {
    ibv_send_wr work = {};
    work.opcode = IBV_WR_RDMA_WRITE;
    work.send_flags = IBV_SEND_SIGNALED;
    work.wr.rdma.remote_addr = peer_window_;
    work.wr.rdma.rkey = queue_pair.peer_window_key;
    return work;
  }
  // All is well: whoever tests may look into the only completion queue by itself.
  void mayTestSoon() {
    const bool one = endpoint_.cqs.size() == 1 && endpoint_.oneQueuePair() && !iwarp_;
    only_cq_ = one ? endpoint_.cqs.front().get() : nullptr;
  }

  // The place in the window that the peer's device is asked to answer into (iWARP: peer_check.cc; trials).
  static constexpr std::size_t kProbeBytes = 64;
  static constexpr uint64_t kProbeWork = uint64_t{1} << 63;  // in wr_id, where nothing else is
  static constexpr uint32_t kProbeReserve = 1;               // of the send queue, on iWARP
  void setProbeTarget(std::size_t offset) { probe_target_ = window_.at<uint64_t>(offset); }
  Status onProbe(const ibv_wc& completion);
  // Posts a read of the head of the peer's window into `target`, behind all that was posted before. Positive
  // errno, or -1 with errno: it could not be posted.
  int readPeerWindow(const LaneQueuePair& queue_pair, uint64_t* target, uint64_t work_id) const;

  static constexpr int kPollBatch = 16;
  // For an address on the way to be resolved (RTR answers ETIMEDOUT until then).
  static constexpr Clock::duration kConnectTime = std::chrono::seconds(2);
  // Nothing can be reached: ports and addresses are looked at again.
  static constexpr Clock::duration kLookAgain = std::chrono::milliseconds(20);

  // ---- failover (failover.cc; docs/transport.md)

  // What becomes of the queue pairs. They live for an epoch, all of them together.
  enum class Phase : uint8_t {
    kRunning,
    kLost,        // to be torn down
    kWaiting,     // there are none: for the peer, or for a way
    kConnecting,  // of the next epoch
  };
  bool canFailOver() const;
  // Tears down, waits, connects; does what can be done now. Success: nothing is known to be wrong for good.
  Status recover();
  // Frames of the peer.
  Status hear();
  // An endpoint on the rails of the next epoch, without queue pairs so far.
  void takeRails(std::vector<Rail> rails) { endpoint_ = Endpoint(std::move(rails), device_.rails()); }
  // What this end can use now, own rails first; `native` tells how many of them.
  std::vector<Rail> usableRails(int* native) const;
  // Describes the rails of the endpoint, with the keys of the window; the rest of `end` as the connection
  // began.
  Status describeEpoch(EndInfo& end) const;
  // The same of any rails, without the window's keys.
  EndInfo describeOffer(const std::vector<Rail>& rails) const;
  // The window's own; {} where it cannot be registered, which is logged.
  MemoryKeys windowKeys(std::size_t rail) const { return windowKeysOn(endpoint_.rails[rail]); }
  MemoryKeys windowKeysOn(const Rail& rail) const;
  // A queue pair of no epoch, for a trial. Errors: kSystem, logged.
  static Result<TrialQueuePair> openTrial(const Rail& rail, const Config& config);
  // Keys of memory through a rail of the epoch. Errors: kSystem, logged.
  Result<MemoryKeys> keysOf(const MemoryHandle& memory, uint8_t rail) const;
  // The same through any rail.
  Result<MemoryKeys> keysOn(const MemoryHandle& memory, const Rail& rail) const;
  // Events of the rails ring the bell, or no more; those of the device's own rails in any case.
  void listenToRails(bool on);
  // Ends the endpoint of this epoch. A device neither reads nor writes memory for a queue pair that is
  // destroyed.
  void dropEndpoint();
  // "mlx5_1 port 1 qp 77"
  std::string nameOf(const LaneQueuePair& queue_pair) const { return endpoint_.nameOf(queue_pair); }
  // "mlx5_1 port 1 -> mlx5_3 port 1"
  std::string wayText(const LaneQueuePair& queue_pair) const;
  // A warning, or information when there were many of late.
  static void sayFew(const std::string& line);
  // Counts the time without a way, and gives up in the end.
  Status giveUpInTime();
  Status countUnproven(Clock::duration since_last_check);
  Status giveUpWhenLost();
  Status peerLeft();
  void ringWhileRecovering() {
    if (phase_ != Phase::kRunning) lost_.ring();
  }

  uint64_t* probe_target_ = nullptr;
  const Device& device_;
  const ConnectionOptions options_;
  const Config& config_;
  const bool iwarp_;
  Phase phase_ = Phase::kRunning;
  uint64_t epoch_ = 1;                        // the highest that this end knows of
  uint64_t asked_epoch_ = 0;                  // that the peer goes to
  uint8_t failed_queue_pair_ = kNoQueuePair;  // of the last epoch
  bool peer_takes_part_ = false;              // in this recovery
  RecoveryLog log_;
  EndInfo epoch_here_ = {};
  EndInfo epoch_there_ = {};
  bool end_seen_ = false;  // of the side channel, in a recovery
  Silence silence_;

  bool cut_off_ = false;  // iWARP: the peer has ended the connection; what it sent before is still looked for
  bool out_of_order_ = false;
  Window window_;

  // ---- Members that every message reads. They share few cache lines, because a thread with many connections
  // fetches each line again for each message.
  alignas(64) const Direction direction_;
  bool tested_ = false;  // since the last isend
  // test() has more to do than to look: something is not posted.
  bool chores_ = false;
  bool heard_ = false;  // something has completed since checkPeer() looked last
  uint32_t idle_polls_ = 0;
  ibv_cq* only_cq_ = nullptr;  // null: there are several, or not all is well
  // Of a sender: all messages up to this number are complete, unless only `done` tells.
  uint64_t known_number_ = 0;
  // All receives up to this number are complete: at the receiver, and as far as the sender has heard.
  SharedNumber arrived_;
  // Of a sender: the oldest receive that not everything is posted for.
  SharedNumber next_post_ = 1;
  uint64_t peer_window_ = 0;
  Status failure_;
  verbs::FatalFlag lost_;  // raised by an event of one of the queues
  Endpoint endpoint_;      // of this epoch

  // ---- the rest
  // Before the connection's end it is taken from the watcher, which reads arrived_ and rings lost_.
  SideChannel side_channel_{lost_, direction_, direction_ == Direction::kReceive ? arrived_ : next_post_};

 private:
  static constexpr uint32_t kIdleMask = 0xff;
  // That the queue pair's device has failed, its port is down or its address gone, in words; "": nothing of
  // the kind.
  // It shows in many a status: in a flush (Soft-RoCE), in retries that were in vain, or in an end of the
  // connection that nobody asked for. The event may still be on its way, so the device is asked.
  std::string ailmentOf(const LaneQueuePair& queue_pair) const;
  // The same as far as events tell, without asking the device.
  std::string ailmentByEvents(const LaneQueuePair& queue_pair) const;
  std::string ailmentOr(const LaneQueuePair& queue_pair, const char* otherwise) const;
  // The same, for an error that comes without a reason: the reason may follow, unless the peer has left.
  std::string ailmentThatFollows(const LaneQueuePair& queue_pair);
  std::string reasonFor(const LaneQueuePair& queue_pair, ibv_wc_status status);
  // What the connection manager has to tell of a connection that is up: its end, or its device's.
  Status checkManager();
  // Nothing has completed for long: an end where the device owes a completion, or the peer's device an
  // answer.
  Status checkSilence(Clock::duration since_last_check);
  Status checkSends();
  Status checkStall();
  void lookAtPorts();
  Status probe();
  Status postProbe(std::size_t queue_pair);
  // An event has told that a queue or a device is lost (NCCL_IB_RETURN_ASYNC_EVENTS).
  Status checkEvents(std::optional<ibv_event_type> event);
  Status describeRails(EndInfo& end) const;
  RailInfo describeRail(const Rail& rail, int mbps) const;
  static bool addGids(const verbs::GidList& gids, RailInfo& info);
  Status onFrame(std::span<const std::byte> frame);
  void onFarewell(const FarewellFrame& frame);
  bool gpuMemoryToo(const Rail& rail) const;

  // ---- What the sending and the receiving end do each in its own way. No call here is on the fast path.
  // From now on no call takes the fast path of this end.
  virtual void leaveFastPath() = 0;
  // This end's next step without queue pairs: tears down, waits for the peer, connects the next epoch.
  virtual Status advanceRecovery() = 0;
  // A frame that only the other direction's end sends. Errors: kRemote (this end expects no such frame).
  virtual Status onPeerFrame(MessageType type, std::span<const std::byte> bytes) = 0;
  // The peer has said goodbye, and that all receives up to `number` are complete.
  virtual void onLastArrived(uint64_t /*number*/) {}
  // Ports of this end have changed while the connection runs.
  virtual void onPortsChanged() = 0;
  // A connection that runs and waits: it may look for better rail pairs.
  virtual void lookForBetter(Clock::time_point /*now*/) {}
  // Asks for the completions that nothing else brings, and looks for them. `anew`: asks in any case.
  virtual Status requestCompletions(bool anew) = 0;
  // Bytes of the largest message that is under way, or may be; 0: there is none.
  virtual uint64_t largestUnderWay() const = 0;

  Context* owner_ = nullptr;
  uint32_t port_changes_ = 0;         // as seen last
  Clock::time_point peer_left_ = {};  // when that was first seen
  int probes_ = 0;                    // iWARP: reads of the peer's window that are not answered yet
  std::string farewell_;              // why the peer left, as it says
  std::string peer_;
};

}  // namespace railwise::net
