// Where a connection stands between two epochs: the state machine of a recovery, which both ends run.
//
//   kRunning --lose()--> kLost --wait()--> kWaiting --connect()--> kConnecting --run()--> kRunning
//                          ^               |  ^  |                      |
//                          | a later epoch +--+  |                      |
//                          +-------refuse()------+---lose(), refuse()---+
//
// docs/develop/wireup.md has the table of phases and frames. Plain values; one thread at a time.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "net/wireup/frames.h"

namespace railwise::net {

class Recovery {
 public:
  // The state of the queue pairs. All queue pairs of a connection live for one epoch.
  enum class Phase : uint8_t {
    kRunning,
    kLost,        // they must be torn down
    kWaiting,     // there are none; the connection waits for the peer, or for a path
    kConnecting,  // the queue pairs of the next epoch are being connected
  };

  Phase phase() const { return phase_; }
  bool running() const { return phase_ == Phase::kRunning; }
  // There are no queue pairs, or this end is leaving them: no more queue pair can be lost.
  bool lost() const { return phase_ == Phase::kLost || phase_ == Phase::kWaiting; }
  // The highest epoch that this end knows of, from 1.
  uint64_t epoch() const { return epoch_; }
  // The epoch that follows, as far as this end knows: the peer may have asked for a later one.
  uint64_t nextEpoch() const { return std::max(epoch_ + 1, asked_epoch_); }
  // The peer has asked for an epoch later than this one.
  bool peerAsksForLater() const { return asked_epoch_ > epoch_; }

  // The queue pairs of this epoch are of no use any more.
  void lose() {
    assert(phase_ == Phase::kRunning || phase_ == Phase::kConnecting);
    phase_ = Phase::kLost;
    blame(kNoQueuePair, FailureCost::kNone);
    peer_takes_part_ = false;
  }
  // The next epoch could not be made, because its queue pair `queue_pair` could not.
  void refuse(uint8_t queue_pair, FailureCost cost) {
    assert(phase_ == Phase::kWaiting || phase_ == Phase::kConnecting);
    phase_ = Phase::kLost;
    blame(queue_pair, cost);
  }
  // There are no queue pairs; the connection waits for those of `epoch`.
  void wait(uint64_t epoch) {
    assert(phase_ != Phase::kRunning && epoch >= epoch_);
    epoch_ = epoch;
    phase_ = Phase::kWaiting;
  }
  void connect() {
    assert(phase_ == Phase::kWaiting);
    phase_ = Phase::kConnecting;
  }
  void run() {
    assert(phase_ == Phase::kConnecting);
    phase_ = Phase::kRunning;
  }

  void peerAsksFor(uint64_t epoch) { asked_epoch_ = epoch; }
  // The queue pair of the last epoch that failed. kNoQueuePair: none in particular.
  uint8_t failedQueuePair() const { return failed_queue_pair_; }
  FailureCost failureCost() const { return failure_cost_; }
  void blame(uint8_t queue_pair, FailureCost cost) {
    failed_queue_pair_ = queue_pair;
    failure_cost_ = cost;
  }
  // The peer takes part in this recovery: it waits too, or has sent something that has not arrived.
  bool peerTakesPart() const { return peer_takes_part_; }
  void setPeerTakesPart(bool takes_part) { peer_takes_part_ = takes_part; }

 private:
  Phase phase_ = Phase::kRunning;
  uint8_t failed_queue_pair_ = kNoQueuePair;
  FailureCost failure_cost_ = FailureCost::kNone;
  bool peer_takes_part_ = false;
  uint64_t epoch_ = 1;
  uint64_t asked_epoch_ = 0;
};

}  // namespace railwise::net
