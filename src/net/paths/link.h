// A link: two ends that know each other, the paths between their rails, and the queue pairs of an epoch,
// which it leaves and makes anew when a path is lost. It knows no message: what is sent is its user's
// (link_user.h). The end that called connect chooses the paths, the other end answers (LinkRole).
//
// For each unit that it sends, a user reads public members here, polls, and posts. Everything else it leaves
// to idle(), which finds out whether the peer is there and whether a path works, and recovers.
//
// Threads: NCCL's service thread makes and closes a link. All other calls come from one thread at a time. An
// error is logged once and is final: every later call returns it. Closing a link is safe at any time, even
// with work outstanding.
#pragma once

#include <cerrno>
#include <span>
#include <string>
#include <string_view>

#include "base/socket.h"
#include "net/paths/epoch_maker.h"
#include "net/paths/link_record.h"
#include "net/paths/link_state.h"
#include "net/paths/watch.h"

namespace railwise::net {

class Link final : private LinkState, private Watch::Host {
 public:
  // `its_memory`: in front of an object that lives as long as this link. The user must outlive it, too.
  Link(Direction its_direction, LinkUser& its_user, LinkMemory& its_memory, const Device& its_device,
       const ConnectionOptions& its_options);

  // What users read of the state.
  using LinkState::bell;
  using LinkState::canFailOver;
  using LinkState::completed_since_look;
  using LinkState::config;
  using LinkState::degraded;
  using LinkState::device;
  using LinkState::direction;
  using LinkState::endpoint;
  using LinkState::epoch;
  using LinkState::failure;
  using LinkState::hasLeft;
  using LinkState::hasQueuePairs;
  using LinkState::more_cqs;
  using LinkState::next_cq;
  using LinkState::numbers;
  using LinkState::only_cq;
  using LinkState::options;
  using LinkState::out_of_order;
  using LinkState::peer;
  using LinkState::peer_window;
  using LinkState::polls_all;
  using LinkState::proof;
  using LinkState::rules;
  using LinkState::running;
  using LinkState::shown;
  using LinkState::there;
  using LinkState::title;
  using LinkState::usableRails;
  using LinkState::window;
  using LinkState::windowKeys;

  // Posts a list of work requests. After an error the epoch is lost; success then means that the user's
  // units will be sent again.
  [[gnu::always_inline]] Status post(LaneQueuePair& queue_pair, ibv_send_wr* work) {
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
      if (count != 0)  // after an error, what the other queues have still counts
        RAILWISE_TRY(take(static_cast<std::size_t>(&cq - endpoint.cqs.data()), completions, count, handle));
    }
    return Status::success();
  }
  // Handles what a poll of completion queue `queue` of the endpoint has returned: `count` is as of
  // ibv_poll_cq(). For users that poll only_cq by themselves.
  template <typename Handle>
  [[gnu::always_inline]] Status take(std::size_t queue, const ibv_wc* completions, int count,
                                     Handle&& handle) {
    countCompletions(queue, count);
    completed_since_look = completed_since_look || count > 0;
    for (int i = 0; i < count; ++i) RAILWISE_TRY(handle(completions[i]));
    return count < 0 ? losePoll(endpoint.cqs[queue].get()) : Status::success();
  }
  static constexpr int kPollBatch = 16;
  // For users that poll one completion queue at a time (next_cq): goes on to the next one.
  void takeCqTurn() {
    cq_turn = static_cast<uint8_t>(cq_turn < more_cqs ? cq_turn + 1 : 0);
    next_cq = endpoint.cqs[cq_turn].get();
  }
  // Counts what a poll of next_cq has returned.
  void countNext(int polled) { countCompletions(cq_turn, polled); }
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
  // Posts a proof of arrival to each queue pair that has posted something without asking for a completion;
  // `anew`: to each queue pair that is used.
  Status prove(bool anew) override;

  // ---- its state

  // The link fails: logs the failure, tells the peer, and returns the failure, also from every later call.
  Status fail(Status status, const std::string& what) override;
  // Ends the link without a line in the log, because of a failure elsewhere. The peer is told the reason.
  void abandon(const std::string& reason);
  // There is no memory to put a failure into words.
  void failWithoutMemory() noexcept {
    failure = {Code::kInternal, ENOMEM};
    stopFastPath();
  }
  // A queue pair (null: no particular one), a port or a path is lost. If the link can fail over, a recovery
  // begins and lose() returns success. Otherwise the link fails.
  Status lose(const LaneQueuePair* queue_pair, Status status, const std::string& what) override;
  // Sends a frame to the other end's user (LinkUser::onFrame()) over the side channel: reliably, in order, in
  // any phase, and also when the TCP connection breaks and is resumed. A frame that the peer does not take
  // because it has gone is lost. A user keeps less than SideChannel::kMostUserFrames frames under way that
  // the other end's user has not answered: more end the link.
  void tell(std::span<const std::byte, kUserFrameBytes> bytes);
  // Has the peer ended its side channel? All frames that the peer sent before are then handled.
  bool peerHasEnded() override;

  // ---- set-up

  EpochMaker& maker() { return maker_; }
  // ConnectionOptions::user_word of the other end, once its description has arrived.
  uint32_t peerWord() const { return there.user_word; }
  // Takes over the socket of the finished handshake as the side channel. The side channel carries the frames
  // of a recovery, and when it ends the peer has gone. `resume_port`: where the peer resumes side channels.
  void attach(Socket socket, const Session& its_session, uint16_t resume_port);
  // Tells the peer that this end is closed, and begins to stop queue pairs whose paths may not work. The
  // destructor does the rest.
  void close();

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
  static constexpr uint32_t kIdleMask = 0xff;

  // ---- recovery (link_recovery.cc; docs/develop/transport.md)

  // Drives the recovery: leaves the epoch, waits or connects, as far as that is possible now. Success: the
  // link has not failed.
  Status recover();
  // leaveEpoch(): the steps that are the same for every reason to leave an epoch; `forgets_stalls` as for
  // Watch::leave(). beginEpoch(): the steps that both ends take when a later epoch begins.
  void leaveEpoch(const std::string& why, bool forgets_stalls);
  Status beginEpoch();
  // From now on no call takes the fast path.
  void stopFastPath() noexcept;
  // Allows the user to poll the completion queues by itself.
  void allowFastPath();
  // Reports the latest arrival to log. `keep_last`: the newest failure in the log came after that arrival, so
  // the log keeps it.
  void noteProgress(bool keep_last = false);
  // Takes what the completion queues still have; it counts.
  void takeDelivered();
  // Counts the time without a path. After RAILWISE_FAILOVER_TIMEOUT the link fails.
  Status giveUpInTime();
  Status giveUpWhenLost() override;
  // Handles the frames that the peer has sent over the side channel.
  Status hear() override;
  Status onFrame(std::span<const std::byte> frame);
  Status onUserFrame(const UserFrame& frame);
  void onClose(const CloseFrame& frame);
  // Sends the close message and ends the side channel. The close message has the reason, and how far this
  // end has got.
  void endSideChannel(std::string_view reason);
  Status failCompletion(const LaneQueuePair& queue_pair, const ibv_wc& completion, const char* operation);

  EpochMaker maker_{*this};
  LinkRecord record_{*this};
  Watch watch_{*this, maker_, record_, *this};
};

}  // namespace railwise::net
