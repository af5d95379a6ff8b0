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
#include "net/wireup/handshake.h"
#include "net/wireup/pairing.h"

namespace railwise::net {

// A rail of each end, by the names of their ports.
using Way = std::pair<std::string, std::string>;
Way wayOf(const RailInfo& local, const RailInfo& remote);

// Ways that failed are left alone for a while, longer each time.
class WayMemory {
 public:
  WayMemory() = default;
  // `patience`: after so long without a way the connection fails; within it every way is tried some times.
  explicit WayMemory(Clock::duration patience) : patience_(patience) {}
  void failed(const Way& way, Clock::time_point now);
  // It was tried with success.
  void worked(const Way& way, Clock::time_point now);
  // When the way may be taken again while there are others; when nothing else is left, it may be taken
  // sooner.
  Clock::time_point freeAt(const Way& way) const;
  Clock::time_point desperateAt(const Way& way) const;
  // It has failed and nothing has come through since.
  bool doubtful(const Way& way, Clock::time_point now) const;
  // How many ways that have become doubtful since this one worked have an end in common with it: nobody knows
  // which end it was.
  int doubts(const Way& way, Clock::time_point now) const;

 private:
  struct Entry {
    int failures = 0;
    Clock::time_point last = {};
    bool free = false;  // since then it has worked,
    Clock::time_point worked = {};
  };
  static bool doubtful(const Entry& entry, Clock::time_point now);
  const Entry* find(const Way& way) const;
  std::map<Way, Entry> entries_;
  Clock::duration patience_ = std::chrono::seconds(60);
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
    bool operator==(const Lane&) const = default;
  };
  std::vector<Lane> lanes;
  bool operator==(const EpochPlan&) const = default;
};

struct PlanAnswer {
  std::optional<EpochPlan> plan;
  Clock::time_point again;  // without a plan: when it is worth asking again, as far as the memory knows
};

// To go on after a failure takes ways without doubt first. To go back every way is proven before it is used.
enum class Purpose { kGoOn, kGoBack };

// `most_remote`: rails that the receiver can use at once. All rails of the connection's devices that reach
// one of the peer's, without doubts; else the first of all that can be reached, standbys included, that has
// the fewest; else the way whose failure is longest ago.
PlanAnswer planEpoch(const Offer& local, const Offer& remote, int most_remote, int subnet_prefix_bits,
                     const WayMemory& memory, Clock::time_point now, Purpose purpose);

// Does it use more of the connection's own rails, or else more lanes?
bool better(const EpochPlan& plan, const EpochPlan& than, int native_local, int native_remote);

}  // namespace railwise::net
