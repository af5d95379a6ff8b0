// How a sender goes back to better paths after a failure. While the sender uses other paths than at first, it
// asks the receiver now and then by which rails the receiver can be reached. The sender tries every new path
// by an RDMA read through a queue pair made for that trial. When all new paths work, the sender leaves the
// epoch for one that uses them. A path that has failed is not tried for a while, longer after each failure
// (PathMemory), so a path that comes and goes is used less and less.
//
// Threads: belongs to one connection; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/device/device.h"
#include "net/device/fence.h"
#include "net/paths/epoch_plan.h"
#include "net/wireup/frames.h"
#include "verbs/cm/connection_manager.h"
#include "verbs/handles.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

// A queue pair for a trial: the sender tests with it whether a path works again. It belongs to no epoch.
struct TrialQueuePair {
  TrialQueuePair() = default;
  TrialQueuePair(TrialQueuePair&&) = default;
  TrialQueuePair& operator=(TrialQueuePair&& next) noexcept {
    std::destroy_at(this);
    return *std::construct_at(this, std::move(next));
  }
  // Once it has memory, a thread of the device destroys the queue pair: the path may not work.
  ~TrialQueuePair();
  // It is about to be connected: what it may read or write, kept as long as the queue pair.
  void use(std::shared_ptr<const void> memory) { remains->memory = std::move(memory); }

  ibv_qp* qp() const { return cm != nullptr ? cm->qp() : made.qp.get(); }

  Rail rail;
  verbs::Cq cq;
  verbs::QueuePair made;                      // empty once the connection manager owns the queue pair
  std::unique_ptr<verbs::CmConnection> cm;    // null unless the connection manager connects
  std::optional<verbs::CmListener> listener;  // receiver: where the sender's connection manager calls
  uint64_t number = 0;                        // receiver: the sender's number of the trial
  uint8_t traffic_class = 0;                  // receiver: the sender's
  std::shared_ptr<Remains> remains;           // takes the rest at the end; null: moved away
};

class Failback {
 public:
  // What a failback needs from its connection.
  class Host {
   public:
    // The rails that this end can use now, rails of its own device first; `native` receives the number of
    // those.
    virtual std::vector<Rail> railsToOffer(int* native) const = 0;
    virtual EndInfo offerOf(const std::vector<Rail>& rails) const = 0;
    // Asks the receiver by which rails it can be reached. The receiver answers with a RailsFrame.
    virtual void askForRails() = 0;
    virtual void sendTrial(const TrialFrame& frame) = 0;
    // Makes a queue pair for a trial. Errors: kSystem, logged.
    virtual Result<TrialQueuePair> openTrialOn(const Rail& rail) const = 0;
    // Connects the trial's queue pair to the queue pair in `reply`, or begins to. False: that is not
    // possible.
    virtual bool connectTrial(TrialQueuePair& trial, const EndInfo& offer, std::size_t local_rail,
                              std::size_t local_gid, const TrialReplyFrame& reply,
                              std::size_t remote_gid) = 0;
    // Posts a read of the peer's window through the trial's queue pair. False: it is not connected yet.
    // Errors: it cannot be.
    virtual Result<bool> readThrough(TrialQueuePair& trial, uint32_t remote_key) = 0;
    // All better paths work: the connection leaves its epoch for them.
    virtual void goBack() = 0;

   protected:
    ~Host() = default;
  };

  // `paths` remembers which paths have failed.
  Failback(Host& host, PathMemory& paths, int subnet_prefix_bits)
      : host_(host), paths_(paths), subnet_prefix_bits_(subnet_prefix_bits) {}

  // The connection uses these paths from now on. `whole`: these paths are all that both devices have. The
  // first such epoch is what the connection wants to go back to.
  void use(const std::vector<RailPath>& paths, bool whole);
  // The connection uses other paths than at first.
  bool reduced() const { return reduced_; }

  // An epoch has begun: the search for better paths begins soon.
  void resume(Clock::time_point now);
  // The epoch has ended. This ends the trial too.
  void stop();
  // Ports have changed: looks for better paths at the next look().
  void lookSoon() { next_look_ = {}; }
  bool trying() const { return trial_ != nullptr; }

  // Continues a trial, or asks the receiver when it is time to. Call it now and then while the epoch runs.
  void look(Clock::time_point now);
  // The receiver has reported by which rails it can be reached. `most_remote`: how many of these rails can be
  // used at once.
  void onRails(const RailsFrame& frame, int most_remote);
  void onTrialReply(const TrialReplyFrame& frame);

 private:
  struct Trial {
    uint64_t number = 0;
    TrialQueuePair end;
    RailPath path;
    uint8_t local_rail = 0;  // place in the offer
    uint8_t local_gid = 0;
    uint8_t remote_gid = 0;
    uint32_t remote_key = 0;  // of the peer's window
    bool connecting = false;
    bool reading = false;
    Clock::time_point until = {};
  };
  std::ptrdiff_t asAtFirst(const std::vector<RailPath>& paths) const;
  void tryNext();
  void read();
  void trialFailed(FailureCost cost);

  Host& host_;
  PathMemory& paths_;
  const int subnet_prefix_bits_;
  std::vector<RailPath> first_;  // paths of the first whole epoch
  std::vector<RailPath> used_;   // paths of this epoch
  bool reduced_ = false;
  std::unique_ptr<Trial> trial_;
  uint64_t trials_ = 0;
  std::optional<EpochPlan> better_plan_;  // the plan, with the paths that are still to be tried
  std::unique_ptr<RailsFrame> better_rails_;
  std::vector<Rail> better_own_;
  Clock::time_point next_look_ = {};
  Clock::duration look_pause_ = Patience::kFirstSearch;
};

}  // namespace railwise::net
