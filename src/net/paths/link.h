// A link: two ends that know each other, the paths between their rails, and the queue pairs of an epoch,
// which it leaves and makes anew when a path is lost. It knows no message: what is sent is its user's
// (link_user.h). The end that called connect chooses the paths, the other end answers (link_role.h).
//
// For each unit that it sends, a user reads public members here, polls, and posts. Everything else it leaves
// to idle(), which finds out whether the peer is there and whether a path works, and recovers.
//
// Threads: NCCL's service thread makes and closes a link. All other calls come from one thread at a time. An
// error is logged once and is final: every later call returns it. Closing a link is safe at any time, even
// with work outstanding.
#pragma once

#include <array>
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
#include "net/device/device.h"
#include "net/paths/arrival_proof.h"
#include "net/paths/connection_options.h"
#include "net/paths/endpoint.h"
#include "net/paths/failback.h"
#include "net/paths/joiner.h"
#include "net/paths/link_memory.h"
#include "net/paths/link_record.h"
#include "net/paths/link_role.h"
#include "net/paths/link_user.h"
#include "net/paths/offer.h"
#include "net/paths/recovery.h"
#include "net/paths/recovery_log.h"
#include "net/paths/search_log.h"
#include "net/paths/watch.h"
#include "net/patience.h"
#include "net/protocol/transport_rules.h"
#include "net/wireup/handshake.h"
#include "net/wireup/side_channel.h"
#include "record/writer.h"

namespace railwise::net {

class Link {
 public:
  // `memory`: in front of an object that lives as long as this link. `user` must outlive it, too.
  Link(Direction direction, LinkUser& user, LinkMemory& memory, const Device& device,
       const ConnectionOptions& options);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() = default;

  // ---- What each unit that is sent reads. These members share few cache lines, because a thread with many
  // links fetches each line again for each unit.

  // The only completion queue. Null: there are several, or the fast path is closed.
  ibv_cq* only_cq = nullptr;
  uint64_t peer_window = 0;  // address of the peer's window
  Status failure;            // every call returns it from now on
  const Direction direction;
  bool completed_since_look = false;  // something has completed since the last look at the peer
  uint32_t idle_polls = 0;
  verbs::FatalFlag bell;  // the bell; also raised by an event of one of the queues
  Endpoint endpoint;      // replaced with each epoch

  const Device& device;
  const ConnectionOptions options;
  const Config& config;
  const TransportRules& rules;

  // Posts a list of work requests. After an error the epoch is lost; success then means that the user's
  // units will be sent again.
  Status post(LaneQueuePair& queue_pair, ibv_send_wr* work) {
    ibv_send_wr* bad = work;
    const int error = ibv_post_send(queue_pair.qp, work, &bad);
    if (error == 0) [[likely]]
      return Status::success();
    return failPost(queue_pair, "ibv_post_send", error, bad);
  }
  // A call of the device's has failed. `refused`: the first work request of a list that was not accepted;
  // null: they count nowhere.
  Status failPost(LaneQueuePair& queue_pair, const char* call, int error,
                  const ibv_send_wr* refused = nullptr);
  // Polls every completion queue once. `handle` takes a completion and returns a status; an error ends the
  // call.
  template <typename Handle>
  Status poll(Handle&& handle) {
    for (const verbs::Cq& cq : endpoint.cqs) {
      ibv_wc completions[kPollBatch];
      const int count = ibv_poll_cq(cq.get(), kPollBatch, completions);
      countCompletions(static_cast<std::size_t>(&cq - endpoint.cqs.data()), count);
      completed_since_look = completed_since_look || count > 0;
      for (int i = 0; i < count; ++i) RAILWISE_TRY(handle(completions[i]));
      if (count < 0) [[unlikely]]
        return losePoll(cq.get());
    }
    return Status::success();
  }
  static constexpr int kPollBatch = 16;
  Status losePoll(const ibv_cq* cq);
  // A completion is an error: the queue pair is lost, unless it says only that a TCP connection has ended
  // (iWARP). An ordinary end of the peer's flushes what is posted, too. So the link waits a little for what
  // the peer says.
  Status loseCompletion(const LaneQueuePair& queue_pair, const ibv_wc& completion, const char* operation);

  // A function that has nothing to do but wait calls idle(). On every 256th idle poll, or when the bell has
  // rung, idle() looks whether the peer is still there, and drives a recovery.
  Status idle(Waiting waiting) {
    const bool nothing_new = (++idle_polls & kIdleMask) != 0 && !bell.raised();
    return nothing_new ? Status::success() : step(waiting);
  }
  // Like idle(), for a call whose first poll found nothing. False: the caller must call idle().
  bool maySkipIdle() {
    if (((idle_polls + 1) & kIdleMask) == 0 || bell.raised()) return false;
    ++idle_polls;
    return true;
  }
  // What idle() does when it looks: drives a recovery, or watches the peer and the paths.
  Status step(Waiting waiting);
  // Posts a proof of arrival to each queue pair whose latest work request is not covered; `anew`: to each
  // queue pair that is used.
  Status prove(bool anew = false);

  // ---- its state

  // Logs the failure, keeps it and returns it. Ends the side channel, so that the peer learns of it.
  Status fail(Status status, const std::string& what);
  // There is no memory to put a failure into words.
  void failWithoutMemory() noexcept {
    failure = {Code::kInternal, ENOMEM};
    stopFastPath();
  }
  // A queue pair (null: no particular one), a port or a path is lost. If the link can fail over, a recovery
  // begins and lose() returns success. Otherwise the link fails.
  Status lose(const LaneQueuePair* queue_pair, Status status, const std::string& what);
  // The number of the epoch, from 1. Each new set of queue pairs begins a new epoch.
  uint64_t epoch() const { return recovery_.epoch(); }
  bool running() const { return recovery_.running(); }
  using Phase = Recovery::Phase;
  // This end has queue pairs, or makes some now.
  bool hasQueuePairs() const { return phase() == Phase::kRunning || phase() == Phase::kConnecting; }
  // The queue pairs of the last epoch are gone, and no epoch runs.
  bool hasLeft() const { return phase() == Phase::kWaiting || phase() == Phase::kConnecting; }
  bool canFailOver() const;
  bool degraded() const { return role_->degraded(); }
  bool takesOutOfOrder() const { return out_of_order_; }
  // Has the peer ended its side channel? All frames that the peer sent before are then handled.
  bool peerHasEnded();
  // The rails that this end can use now.
  std::vector<Rail> usableRails() const;
  const std::shared_ptr<Window>& window() const { return window_; }
  // The local key of the window through a rail.
  uint32_t windowKey(const Rail& rail) const { return windowKeysOn(device, *window_, rail).local; }
  ArrivalProof& proof() { return proof_; }
  // "host:pid (mlx5_1)" of the peer. Valid once the peer's description has arrived.
  const std::string& peer() const { return peer_; }
  // "mlx5_1: connection to host:pid (mlx5_3)"
  std::string title() const;

  // ---- set-up

  // Takes a window of the user's (LinkUser::makeWindow()).
  Status openWindow(bool registers = true);
  // Takes over the socket of the finished handshake as the side channel. The side channel carries the frames
  // of a recovery, and when it ends the peer has gone. `resume_port`: where the peer resumes side channels.
  void attach(Socket socket, const Session& session, uint16_t resume_port);
  // Tells the peer that this end is closed, and begins to stop queue pairs whose paths may not work. The
  // destructor does the rest.
  void close();

  // ---- the record (record/layout.h)

  record::ConnectionRecord& shown() { return memory_.shown(); }
  const record::ConnectionRecord& shown() const { return memory_.shown(); }
  record::ConnectionNumbers& numbers() { return memory_.numbers(); }
  const record::ConnectionNumbers& numbers() const { return memory_.numbers(); }
  LinkRecord& record() { return record_; }
  // Counts `polled` completions of completion queue `queue` of the endpoint.
  void countCompletions(std::size_t queue, int polled) {
    if (polled <= 0) return;
    (queue == 0 ? numbers().completions : shown().more_completions[queue - 1]) +=
        static_cast<uint64_t>(polled);
  }

 private:
  friend class Answerer;
  friend class Chooser;
  friend class LinkRecord;
  friend class Watch;
  static constexpr uint32_t kIdleMask = 0xff;

  // ---- making an epoch (first_epoch.cc, link.cc)

  // This end, for the functions of offer.h.
  OfferingEnd own() const { return {device, options, *joiner_, out_of_order_}; }
  // Makes completion queues, and a queue pair in state INIT for each of `rail_of`: the rail of each. kNoRail:
  // one that is not used.
  Status openQueuePairs(std::span<const uint8_t> rail_of);
  static constexpr uint8_t kNoRail = 0xff;
  Status addQueuePair(uint8_t rail, const QueuePairNeeds& needs);
  // Takes over from the peer's description: the peer's name, the keys of the peer's window, and the largest
  // work request of each queue pair.
  void adopt(const EndInfo& remote);
  // What joiner_ connects: the queue pairs of the endpoint. `local`, `remote`: the descriptions of both ends.
  Joiner::Ends ends(const EndInfo& local, const EndInfo& remote) {
    return {epoch(), endpoint, local, remote};
  }
  // Replaces the endpoint by one on the rails of the next epoch, still without queue pairs.
  void takeRails(std::vector<Rail> rails);
  // Makes a queue pair for a trial, which belongs to no epoch. Errors: kSystem, logged.
  Result<TrialQueuePair> openTrial(const Rail& rail) const;
  // May the link begin without a path, in the state of one that has just lost all its paths?
  bool mayBeginLost() const { return config.failover != 0; }
  bool mustBeginLost() const { return mayBeginLost() && !railsWork(endpoint.rails); }
  std::string whyLost() const;
  // Makes the first queue pairs by `make`, and again for some milliseconds while a device refuses them: it
  // may lack something for a moment, or have failed, which its event has not said yet.
  Status makeFirst(const std::function<Status()>& make);
  // After a device has refused the first queue pairs: may the link begin without them, because this end has
  // another rail that accepts one? `refused`: what, for the line that says so.
  bool goesElsewhere(const char* refused);
  // The first epoch is lost before it has begun. The recovery finds a path.
  void beginWithoutQueuePairs(const EndInfo& here, const EndInfo& there);

  // ---- recovery (link_recovery.cc; docs/transport.md)

  Phase phase() const { return recovery_.phase(); }
  // Drives the recovery: leaves the epoch, waits or connects, as far as that is possible now. Success: the
  // link has not failed.
  Status recover();
  // leaveEpoch(): the steps that are the same for every reason to leave an epoch; `forgets_stalls` as for
  // Watch::leave(). beginEpoch(): the steps that both ends take when a later epoch begins.
  void leaveEpoch(const std::string& why, bool forgets_stalls);
  Status beginEpoch();
  // From now on no call takes the fast path.
  void stopFastPath() noexcept;
  // Allows the user to poll the only completion queue by itself, if there is exactly one.
  void allowFastPath();
  // Reports the latest arrival to log_. `keep_last`: the newest failure in log_ came after that arrival, so
  // log_ keeps it.
  void noteProgress(bool keep_last = false);
  // Destroys the endpoint of this epoch. A device neither reads nor writes memory for a destroyed queue pair.
  void dropEndpoint();
  // At the end of the link, or of an attempt: begins to stop the endpoint if its paths may not work, so that
  // this thread need not wait for their destruction.
  void stopLostQueuePairs() noexcept;
  // Takes what the completion queues still have; it counts.
  void takeDelivered();
  // Counts the time without a path. After RAILWISE_FAILOVER_TIMEOUT the link fails.
  Status giveUpInTime();
  Status giveUpWhenLost();
  // Handles the frames that the peer has sent over the side channel.
  Status hear();
  Status onFrame(std::span<const std::byte> frame);
  void onClose(const CloseFrame& frame);
  // Sends the close message and ends the side channel. The close message has the reason, and how far this
  // end has got.
  void endSideChannel(std::string_view reason);
  Patience patience() const { return Patience(config.failover_timeout_s); }
  // "mlx5_1 port 1 -> mlx5_3 port 1"
  std::string pathText(const LaneQueuePair& queue_pair) const {
    return endpoint.pathText(queue_pair, epoch_there_, direction);
  }

  Status failCompletion(const LaneQueuePair& queue_pair, const ibv_wc& completion, const char* operation);

  LinkUser& user_;
  LinkMemory& memory_;
  LinkRole* role_ = nullptr;  // set by the role itself; it lives as long as the link is used
  Recovery recovery_;
  RecoveryLog log_;
  SearchLog search_;
  Session session_ = {};  // proves calls of RDMA CM, has the packet numbers
  Watch watch_{*this};
  LinkRecord record_{*this};
  EndInfo epoch_here_ = {};
  EndInfo epoch_there_ = {};

  std::string why_lost_;  // the reason, where a device has refused the first queue pairs
  ArrivalProof proof_;
  bool out_of_order_ = false;
  std::shared_ptr<Window> window_;  // shared with queue pairs that are being destroyed
  std::unique_ptr<Joiner> joiner_;  // connects the queue pairs of the endpoint; never null
  // The destructor of SideChannel first unregisters the channel from the watcher, whose thread reads the
  // number and rings the bell.
  SideChannel side_channel_;
  std::string peer_;
};

}  // namespace railwise::net
