// What the two ends of a link do differently: the end that called connect chooses the paths (chooser.h), the
// other one answers (answerer.h). One thread at a time, the link's.
#pragma once

#include <cstddef>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

class LinkRole {
 public:
  // The next step of this end in a recovery: leaves the epoch, waits for the peer, connects the next one.
  virtual Status advanceRecovery() = 0;
  // Takes a frame that only the other role sends. Errors: kRemote (this role expects no such frame).
  virtual Status onPeerFrame(MessageType type, std::span<const std::byte> bytes) = 0;
  // Ports of this end have changed while the link runs.
  virtual void onPortsChanged() = 0;
  // The bell has rung while the link runs: goes on with a trial of the peer.
  virtual void goOnWithTrial() {}
  // The link runs and waits: it may look for better paths.
  virtual void lookForBetter(Clock::time_point /*now*/) {}
  // Uses this epoch fewer or other rails than the first one?
  virtual bool degraded() const { return false; }

 protected:
  ~LinkRole() = default;
};

}  // namespace railwise::net
