// Both ends know the address and number of each other's queue pairs from the side channel, and bring their
// own up.
#pragma once

#include "net/paths/joiner.h"

namespace railwise::net {

class JoinByExchange final : public Joiner {
 public:
  JoinByExchange(Direction direction, const Config& config, const Session& session)
      : Joiner(direction, config, session) {}

  bool needsCall() const override { return false; }
  Result<verbs::GidList> addressesOf(const Rail& rail) const override { return rail.gids->get(); }
  Result<bool> join(std::size_t index, const Ends& ends) override;
  bool callTrial(TrialQueuePair& trial, const Ends& ends, const Path& path, uint64_t number) const override;
  Result<uint16_t> answerTrial(TrialQueuePair& trial, const Ends& ends, const Path& path,
                               uint64_t number) const override;

 private:
  // Brings a queue pair on `rail` to "ready to send". `index`: place of the peer's queue pair in
  // `ends.remote`. `from` receives the GID that the queue pair sends from.
  Status makeReady(ibv_qp* qp, const Rail& rail, const Ends& ends, const Path& path, std::size_t index,
                   verbs::Gid* from) const;
};

}  // namespace railwise::net
