// Makes the queue pairs of an epoch, on the rails that this end has. The first epoch is special in one thing:
// it may begin without queue pairs, where a port is down or a device refuses; the recovery then finds a path.
//
// Threads: the link's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "net/paths/failback.h"
#include "net/paths/link_state.h"

namespace railwise::net {

class EpochMaker {
 public:
  explicit EpochMaker(LinkState& state) : state_(state) {}

  // ---- any epoch

  // Takes a window of the user's (LinkUser::makeWindow()). The old one stays with the queue pairs that may
  // still use it.
  Status openWindow(bool registers = true);
  // Replaces the endpoint by one on the rails of the next epoch, still without queue pairs.
  void takeRails(std::vector<Rail> rails);
  // Makes completion queues, and for each of `rail_of` a queue pair in state INIT on this rail, whose device
  // knows the window. kNoRail: one that is not used. Errors: kSystem, logged; whyLost() says which device
  // refuses what.
  Status openQueuePairs(std::span<const uint8_t> rail_of);
  static constexpr uint8_t kNoRail = 0xff;
  // Takes over from the peer's description: the peer's name, the keys of the peer's window, and the largest
  // work request of each queue pair.
  void adopt(const EndInfo& remote);
  // Destroys the endpoint of this epoch. A device neither reads nor writes memory for a destroyed queue pair.
  void drop();
  // At the end of the link, or of an attempt: begins to stop the queue pairs if their paths may not work, so
  // that this thread need not wait for their destruction.
  void stopLost() noexcept;
  // Events of the rails ring the bell (`on`), or no longer do. This covers the endpoint's rails and the
  // device's own rails, which may come back.
  void listenToRails(bool on);
  // Makes a queue pair for a trial, which belongs to no epoch and may use the window. Errors: kSystem,
  // logged.
  Result<TrialQueuePair> openTrial(const Rail& rail) const;

  // ---- the first epoch

  // May the link begin without a path, in the state of one that has just lost all its paths?
  bool mayBeginLost() const;
  bool mustBeginLost() const;
  // After a device has refused what the first epoch needs: may the link begin without a path? Then the
  // recovery asks again, or takes another rail. Not if the refusal cannot pass and there is no other rail.
  bool survives(Status refusal) const;
  // The first epoch is lost before it has begun.
  void beginWithoutQueuePairs(const EndInfo& local, const EndInfo& remote);
  // Why there are no queue pairs: what was noted last, or what the ports say.
  std::string whyLost() const;
  void noteWhyLost(const std::string& why) { why_lost_ = why; }

 private:
  Status addQueuePair(uint8_t rail, const QueuePairNeeds& needs);
  Status noteRefused(Status refusal, std::size_t rail, const char* what);
  Result<TrialQueuePair> makeTrial(const Rail& rail) const;

  LinkState& state_;
  std::string why_lost_;  // "": nobody has noted a reason
};

}  // namespace railwise::net
