// Which ways a connection takes after something has failed: from the rails that both ends can still use,
// those of its own devices before the standbys, and those that have not failed lately before the others. The
// plan itself is a pure function; the memory of failures belongs to one connection and its thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/handshake.h"
#include "net/pairing.h"

namespace railwise::net {

// A rail of each end, by the names of their ports.
using Way = std::pair<std::string, std::string>;
Way wayOf(const RailInfo& local, const RailInfo& remote);

// Ways that failed are left alone for a while, longer each time.
class WayMemory {
 public:
  void failed(const Way& way, Clock::time_point now);
  // It has carried something, or was tried with success.
  void worked(const Way& way);
  // When the way may be taken again while there are others; when nothing else is left, it may be taken
  // sooner.
  Clock::time_point freeAt(const Way& way) const;
  Clock::time_point desperateAt(const Way& way) const;

 private:
  struct Entry {
    int failures = 0;
    Clock::time_point last = {};
    bool free = false;  // since then it has worked
  };
  const Entry* find(const Way& way) const;
  std::map<Way, Entry> entries_;
};

// What an end offers: the first `native` of its rails are those of the connection's device.
struct Offer {
  const EndInfo& end;
  int native;
};

struct EpochPlan {
  // Rails that are used, by their places in the offers.
  std::vector<uint8_t> local;
  std::vector<uint8_t> remote;
  // One for each lane; rails count those that are used.
  struct Lane {
    uint8_t local_rail;
    uint8_t remote_rail;
    uint8_t local_gid;
    uint8_t remote_gid;
  };
  std::vector<Lane> lanes;
};

struct PlanAnswer {
  std::optional<EpochPlan> plan;
  Clock::time_point again;  // without a plan: when it is worth asking again, as far as the memory knows
};

// `most_remote`: rails that the receiver can use at once. All rails of the connection's devices that reach
// one of the peer's; else the first of all that can be reached, standbys included; else the way whose failure
// is longest ago.
PlanAnswer planEpoch(const Offer& local, const Offer& remote, int most_remote, int subnet_prefix_bits,
                     const WayMemory& memory, Clock::time_point now);

// Does it use more of the connection's own rails, or else more lanes?
bool better(const EpochPlan& plan, const EpochPlan& than, int native_local, int native_remote);

}  // namespace railwise::net
