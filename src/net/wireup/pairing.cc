#include "net/wireup/pairing.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

namespace railwise::net {
namespace {

bool sameOrUnknown(int a, int b) { return a < 0 || b < 0 || a == b; }

}  // namespace

verbs::GidList railGids(const RailInfo& rail) {
  verbs::GidList gids;
  for (int i = 0; i < std::min<int>(rail.gid_count, kRailGids); ++i) {
    verbs::Gid gid;
    std::memcpy(gid.value.raw, rail.gids[i], sizeof rail.gids[i]);
    gid.roce_version = rail.gid_versions[i];
    gids.push(gid);
  }
  return gids;
}

std::vector<std::optional<RailPair>> pairRails(const EndInfo& connector, const EndInfo& listener, int lanes,
                                               int subnet_prefix_bits,
                                               const std::function<bool(int, int)>& allowed) {
  std::vector<std::optional<RailPair>> pairs(static_cast<std::size_t>(lanes));
  std::array<int, kMaxRails> uses = {};
  for (int lane = 0; lane < lanes; ++lane) {
    const int from = lane % connector.rails;
    const RailInfo& local = connector.rail[from];
    const verbs::GidList local_gids = railGids(local);
    using Score = std::tuple<int, bool, int, bool, bool>;
    std::optional<Score> best;
    for (int to = 0; to < listener.rails; ++to) {
      const RailInfo& remote = listener.rail[to];
      if (local.link_layer != remote.link_layer || (allowed && !allowed(from, to))) continue;
      const verbs::GidList remote_gids = railGids(remote);
      const auto gids =
          verbs::choosePair({local_gids.begin(), local_gids.end()}, {remote_gids.begin(), remote_gids.end()},
                            local.link_layer != LinkLayer::kInfiniBand || connector.connection_manager != 0,
                            subnet_prefix_bits);
      if (!gids) continue;
      const Score score = {static_cast<int>(gids->reach), sameOrUnknown(local.plane, remote.plane),
                           -uses[static_cast<std::size_t>(to)], local.rail >= 0 && local.rail == remote.rail,
                           to == lane % listener.rails};
      if (best && score <= *best) continue;
      best = score;
      pairs[static_cast<std::size_t>(lane)] =
          RailPair{static_cast<uint8_t>(to), static_cast<uint8_t>(gids->local),
                   static_cast<uint8_t>(gids->remote), gids->reach};
    }
    if (best) ++uses[pairs[static_cast<std::size_t>(lane)]->listener_rail];
  }
  return pairs;
}

}  // namespace railwise::net
