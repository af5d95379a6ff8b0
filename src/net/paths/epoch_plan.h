// Which paths a connection takes after a failure. It chooses from the rails that both ends can still use:
// rails of its own devices before standbys, and paths that have not failed lately before the others. The plan
// itself is a pure function. The memory of failures belongs to one connection and its thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/patience.h"
#include "net/wireup/frames.h"
#include "net/wireup/handshake.h"
#include "net/wireup/pairing.h"

namespace railwise::net {

// A path: one rail of each end, by the names of their ports.
using RailPath = std::pair<std::string, std::string>;
RailPath pathOf(const RailInfo& local, const RailInfo& remote);

// Remembers which paths have failed. A path that has failed is not used for a while, longer after each
// failure.
class PathMemory {
 public:
  // Within the patience of the connection every path is tried several times.
  explicit PathMemory(const Patience& patience) : patience_(patience) {}
  const Patience& patience() const { return patience_; }
  // `cost`: of this failure. The path's next failure is likely to cost as much.
  void failed(const RailPath& path, FailureCost cost, Clock::time_point now);
  // A trial of this path has succeeded.
  void worked(const RailPath& path, Clock::time_point now);
  // Messages have gone over this path, in an epoch that began at `since`.
  void carried(const RailPath& path, Clock::time_point since);
  // freeAt(): when the path may be used again while there are other paths. desperateAt(): when the path may
  // be used if there is no other path, which is sooner.
  Clock::time_point freeAt(const RailPath& path) const;
  Clock::time_point desperateAt(const RailPath& path) const;
  // The path has failed and nothing has come through it since.
  bool doubtful(const RailPath& path, Clock::time_point now) const;
  // The path is doubtful, and its last failure has cost time.
  bool dear(const RailPath& path, Clock::time_point now) const;
  // The doubts of a path: how many other paths share a rail with it and have become doubtful since it last
  // worked. Nobody knows which of the two rails of a doubtful path has failed.
  int doubts(const RailPath& path, Clock::time_point now) const;
  // Messages have gone over the path, or a trial has, and it has not failed since.
  bool proven(const RailPath& path) const;

 private:
  struct Entry {
    int failures = 0;
    FailureCost cost = FailureCost::kNone;  // of the last failure
    Clock::time_point last = {};
    bool free = false;  // it has worked since the last failure
    Clock::time_point worked = {};
    bool proven = false;  // something has gone over it since the last failure
  };
  static bool doubtful(const Entry& entry, Clock::time_point now);
  const Entry* find(const RailPath& path) const;
  std::map<RailPath, Entry> entries_;
  Patience patience_;
};

// What an end offers: its rails, of which the first `native` belong to the connection's own device.
struct Offer {
  const EndInfo& end;
  int native;
};

struct EpochPlan {
  // The rails that are used, by their places in the offers.
  std::vector<uint8_t> local;
  std::vector<uint8_t> remote;
  // One entry for each lane. A rail's number is its place in `local` or `remote` above.
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
  Clock::time_point again;  // without a plan: when to ask again, as far as the memory of failures shows
};

// kGoOn: after a failure, paths without doubt are taken first. kGoBack: the paths will be proven by trials
// before they are used.
enum class Purpose { kGoOn, kGoBack };

// `most_remote`: number of the receiver's rails that can be used at once. The plan has all paths between
// native rails that are not doubtful and have no doubts (kGoBack: that are free). If there is no such path,
// the plan has one path, standbys included. It prefers a path that is not doubtful; then one that is free
// now; then one whose failures cost no time; then the path that is free first; then the path with the fewest
// doubts; then one that is proven. There is no plan if that path may not be tried yet (desperateAt()).
PlanAnswer planEpoch(const Offer& local, const Offer& remote, int most_remote, int subnet_prefix_bits,
                     const PathMemory& memory, Clock::time_point now, Purpose purpose);

// Does `plan` use fewer standbys than `than`, or equally many and more rails?
bool better(const EpochPlan& plan, const EpochPlan& than, int native_local, int native_remote);

}  // namespace railwise::net
