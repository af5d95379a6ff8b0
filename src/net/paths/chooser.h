// The end of a link that called connect: it chooses the paths. After a failure it hears from the other end by
// which rails that end can be reached, plans the next epoch, proposes it and connects it. While the link uses
// other paths than at first, it looks for better ones (failback.h). docs/develop/transport.md has the
// protocol.
//
// Threads: the link's.
#pragma once

#include <memory>
#include <vector>

#include "net/paths/epoch_plan.h"
#include "net/paths/failback.h"
#include "net/paths/link.h"

namespace railwise::net {

class Chooser final : public LinkRole, private Failback::Host {
 public:
  // `peer_rails`: number of rails of the peer's device. `out_of_order`: queue pairs take messages in any
  // order, if both devices can. Both are in the handle of the peer's listener.
  Chooser(Link& link, int peer_rails, bool out_of_order);

  // ---- set-up

  // No epoch has more queue pairs.
  int mostQueuePairs() const { return most_queue_pairs_; }
  // Makes the first queue pairs, once the link has its window. Errors: kSystem, logged.
  Status openFirst();
  // Describes this end for the connect request. Errors: kSystem, logged (no usable GID).
  Status describe(EndInfo& end) const;
  // Takes over the pairing from the reply and brings the queue pairs up. False: not all queue pairs are up
  // yet, call again.
  Result<bool> establish(const EndInfo& local, const EndInfo& reply, const Session& session);

  // A better path is being tried: the link must be looked at often.
  bool triesPath() const { return failback_.trying(); }

  Status advanceRecovery() override;
  Status onPeerFrame(MessageType type, std::span<const std::byte> bytes) override;
  void onPortsChanged() override { failback_.lookSoon(); }
  void lookForBetter(Clock::time_point now) override;
  bool degraded() const override { return failback_.reduced(); }

 private:
  // What both ends have agreed on so far about the next epoch.
  struct NextEpoch {
    bool isAnswered(uint64_t epoch) const { return reconcile != nullptr && reconcile->epoch == epoch; }
    // Begins again for a later epoch, because the epoch that both ends had agreed on is lost.
    void restart() {
      reconciled = false;
      proposal.reset();
      accepted.reset();
    }

    std::unique_ptr<ReconcileFrame> reconcile;  // the peer's offer, and what has arrived there
    bool reconciled = false;                    // the user knows the words in it
    uint64_t searched = 0;  // the epoch for which this end has reported that it finds no path yet
    std::unique_ptr<ProposeFrame> proposal;
    std::unique_ptr<EndInfo> accepted;  // the peer's answer to the proposal
    Clock::time_point try_at = {};
    Clock::time_point connect_until = {};
  };
  NextEpoch& agree() {
    if (next_ == nullptr) next_ = std::make_unique<NextEpoch>();
    return *next_;
  }

  int queuePairsPerLane(std::size_t lanes) const;
  bool beginWithoutQueuePairs(const EndInfo& local, const EndInfo& reply);
  void adoptPairing(const EndInfo& local, const EndInfo& reply);
  void warnOfRails(const RailInfo& here, const RailInfo& there) const;
  // Brings queue pair `index` up, as far as that is possible now. True: it is up.
  Result<bool> connectQueuePair(std::size_t index, const EndInfo& local, const EndInfo& reply);

  void sayBreak();
  bool needNotStop();
  void tearDown();
  void onReconcile(const ReconcileFrame& frame);
  Status onAccept(const AcceptFrame& frame);
  void tryToConnect();
  // "": the queue pairs of the plan are made; else why not.
  std::string openEpoch(const EpochPlan& plan);
  std::string notConnected(std::size_t index, Status why) const;
  // Does the plan use all that the rails of both devices allow?
  bool isWhole(const EpochPlan& plan, const EndInfo& offer, int native) const;
  void propose(const EpochPlan& plan);
  Status connectEpoch();
  Status begin();

  // What failback_ needs.
  std::vector<Rail> railsToOffer(int* native) const override { return usableRails(link_.own(), native); }
  EndInfo offerOf(const std::vector<Rail>& rails) const override {
    return describeOffer(link_.own(), rails, link_.here);
  }
  void askForRails() override;
  void sendTrial(const TrialFrame& frame) override { link_.side_channel.send(frame); }
  Result<TrialQueuePair> openTrialOn(const Rail& rail) const override { return maker_.openTrial(rail); }
  bool connectTrial(TrialQueuePair& trial, const EndInfo& offer, std::size_t local_rail,
                    std::size_t local_gid, const TrialReplyFrame& reply, std::size_t remote_gid) override;
  Result<bool> readThrough(TrialQueuePair& trial, uint32_t remote_key) override;
  void goBack() override;

  Link& link_;
  EpochMaker& maker_;
  const int peer_rails_;
  int most_queue_pairs_ = kMaxQueuePairs;  // iWARP has buffers for so many
  std::unique_ptr<NextEpoch> next_;        // exists only from a failure until the next epoch begins
  PathMemory paths_;
  std::vector<RailPath> epoch_paths_;  // the paths of this epoch, by queue pair
  Clock::time_point epoch_began_ = {};
  uint8_t blamed_ = kNoQueuePair;  // the queue pair whose path is already marked as failed
  uint64_t break_said_ = 0;        // the epoch that this end has asked for last
  bool whole_ = false;             // this epoch uses all rails of both devices
  Failback failback_;
};

}  // namespace railwise::net
