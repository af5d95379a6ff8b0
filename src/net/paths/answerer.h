// The end of a link that was called: it answers. After a failure it takes in what its queue pairs still
// bring, tells the other end what has arrived and by which rails this end can be reached, and makes the queue
// pairs that the other end proposes. docs/develop/transport.md has the protocol.
//
// Threads: the link's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/paths/link.h"

namespace railwise::net {

class Answerer final : public LinkRole {
 public:
  // `request`: of the peer, which the handshake has checked.
  Answerer(Link& link, const EndInfo& request);

  // ---- set-up

  // No epoch has more queue pairs (iWARP).
  int mostQueuePairs() const { return most_queue_pairs_; }
  // Pairs the rails with those of the request and makes the queue pairs, once the link has its window. If the
  // peer is refused, `refusal` receives the reason for the peer. Errors: kRemote, kSystem.
  Status openFirst(const EndInfo& request, std::string& refusal);
  // A device of this end has refused what the link needs: does the link begin all the same, because both ends
  // recover (EpochMaker::survives())?
  bool survives(const EndInfo& request, Status refusal) const {
    return mayLoseFirst(request) && maker_.survives(refusal);
  }
  // The description of this end, for the reply.
  const EndInfo& local() const { return link_.here; }
  // Called before the reply: brings the queue pairs to "ready to send", or opens the ports at which the
  // connection manager listens. ETIMEDOUT: an address of the peer is not resolved yet (ARP); call again
  // later.
  Status prepare(const EndInfo& request, const Session& session);
  // Called after the reply. True: all queue pairs are up.
  Result<bool> establish(const EndInfo& request);
  // With RDMA CM: the peer is ready, but not all queue pairs are up at this end, and will not be. The
  // recovery begins. False: the ends cannot fail over.
  bool giveUpFirst(const EndInfo& request);

  Status advanceRecovery() override;
  Status onPeerFrame(MessageType type, std::span<const std::byte> bytes) override;
  // Tells the peer by which rails this end can be reached, if these rails have changed.
  void onPortsChanged() override;
  void goOnWithTrial() override;

 private:
  // May the first epoch be lost before it has begun?
  bool mayLoseFirst(const EndInfo& request) const;
  // Does this link begin without queue pairs, because one end has no port that works?
  bool beginsLostWith(const EndInfo& request) const;
  // No rail of one end can reach one of the other. May the link begin without a path?
  bool unreachableFirst(const EndInfo& request, const std::string& refusal);
  void beginWithoutQueuePairs(const EndInfo& request);
  Status pairFirst(const EndInfo& request, std::string& refusal);
  Status checkLinkLayer(const EndInfo& request, std::string& refusal) const;
  Status pair(const EndInfo& request, std::string& refusal);
  // Makes the queue pairs that Link::here describes.
  Status openQueuePairs(const EndInfo& peer);

  bool drained() const;
  // Waits for the queue pairs of `epoch`.
  void toEpoch(uint64_t epoch);
  void renewOffer();
  void sendReconcile();
  void onBreak(const BreakFrame& frame);
  Status onPropose(const ProposeFrame& frame);
  // "": the queue pairs that were proposed are made; else why not.
  std::string openEpoch(const ProposeFrame& frame);
  std::string notConnected(std::size_t index, Status why) const;
  void refuseEpoch(uint8_t queue_pair, FailureCost cost, const std::string& what);
  Status connectEpoch();
  Status awaitBegin();
  Status begin();
  void sendRails();
  void onTrial(const TrialFrame& frame);

  Link& link_;
  EpochMaker& maker_;
  const int most_queue_pairs_;
  // What this end has offered last: the rails by which the peer can reach it.
  struct Offer {
    std::vector<Rail> rails;
    EndInfo end = {};
    int native = 0;  // the first of `rails` are so many rails of the link's own device
  };
  std::unique_ptr<Offer> offer_;  // null: this end has offered nothing yet
  Offer& offer() {
    if (offer_ == nullptr) offer_ = std::make_unique<Offer>();
    return *offer_;
  }
  // What this end does on the way to the next epoch.
  struct NextEpoch {
    std::optional<Deadline> drain;  // until then the lost queue pairs may still deliver
    Clock::time_point connect_until = {};
    Clock::time_point look_at = {};  // when to look whether the usable rails have changed
    bool accept_sent = false;        // the proposal was answered
    bool begin_heard = false;        // RDMA CM: the peer is ready, and waits for this end to see that
  };
  NextEpoch next_;
  std::optional<TrialQueuePair> trial_;  // the peer reads through it
  Clock::time_point trial_until_ = {};   // the peer connects the trial until then
};

}  // namespace railwise::net
