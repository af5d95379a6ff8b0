// Which rail of the listener answers which rail of the connector. Pure functions, any thread.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "net/wireup/handshake.h"
#include "verbs/gid.h"

namespace railwise::net {

struct RailPair {
  uint8_t listener_rail;
  uint8_t connector_gid;  // positions in the rails' lists
  uint8_t listener_gid;
  verbs::Reach reach;
};

// For each lane of the connector, whose lane i is on its rail i mod `connector.rails`: the rail of the
// listener that it best goes to, or nothing when none can be reached. Better: a nearer subnet; a plane that
// is the same or not known on one side; a rail that fewer lanes have yet; the rail of the same number in the
// network; the one at the same place in the list. `subnet_prefix_bits`: NCCL_IB_SUBNET_PREFIX_LEN.
// `allowed` (rail of the connector, rail of the listener): which may be paired at all; empty: all.
std::vector<std::optional<RailPair>> pairRails(const EndInfo& connector, const EndInfo& listener, int lanes,
                                               int subnet_prefix_bits,
                                               const std::function<bool(int, int)>& allowed = {});

// The GIDs in a rail's description.
verbs::GidList railGids(const RailInfo& rail);

}  // namespace railwise::net
