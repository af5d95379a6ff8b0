// RDMA CM connects the queue pairs: the receiver listens, and the sender calls once for each queue pair.
// iWARP has no other way. A call carries a proof that the caller knows the session (CmPrivate).
#pragma once

#include <memory>
#include <vector>

#include "net/paths/joiner.h"
#include "verbs/cm/connection_manager.h"

namespace railwise::net {

class JoinByManager final : public Joiner {
 public:
  JoinByManager(Direction direction, const Config& config, const Session& session, bool iwarp)
      : Joiner(direction, config, session), iwarp_(iwarp) {}
  ~JoinByManager() override;

  bool needsCall() const override { return true; }
  // The IP addresses of the rail's network interface.
  Result<verbs::GidList> addressesOf(const Rail& rail) const override;
  // The kernel's manager of iWARP does one thing after the other (managerBusy()).
  bool mayBegin() const override;
  // Listens at each address that a queue pair was paired with.
  Status listen(uint64_t epoch, const Endpoint& endpoint, EndInfo& local, std::size_t* failed) override;
  bool listens() const override { return !listeners_.empty(); }
  Result<bool> join(std::size_t index, const Ends& ends) override;
  // A receiver first takes the calls that have come.
  Result<bool> joinAll(const Ends& ends, std::size_t* failed) override;
  bool isJoining(const Endpoint& endpoint) const override;
  Lost lost(const LaneQueuePair& queue_pair) const override;
  void drop() noexcept override;
  bool callTrial(TrialQueuePair& trial, const Ends& ends, const Path& path, uint64_t number) const override;
  Result<uint16_t> answerTrial(TrialQueuePair& trial, const Ends& ends, const Path& path,
                               uint64_t number) const override;
  // A receiver takes the sender's call.
  Result<bool> advanceTrial(TrialQueuePair& trial) const override;

 private:
  struct RailListener {
    uint8_t rail;
    Hca* hca;
    verbs::CmListener listener;
  };

  // `epoch`: for a trial its number; `index`: the queue pair's, or kTrialCall.
  Result<std::unique_ptr<verbs::CmConnection>> call(verbs::QueuePair made, const Rail& rail, const Ends& ends,
                                                    const Path& path, uint64_t epoch, uint32_t index) const;
  static Result<verbs::CmListener> listenAt(const Rail& rail, const uint8_t* address, bool quiet);
  Status takeCalls(const Ends& ends, std::size_t* failed);
  Status answer(verbs::CmRequest request, uint8_t rail, const Ends& ends, std::size_t* failed);
  bool isCall(const verbs::CmRequest& request, uint64_t epoch, uint32_t* queue_pair) const;

  const bool iwarp_;
  std::vector<RailListener> listeners_;  // used only while connecting
};

}  // namespace railwise::net
