// Pairs each rail of the connector with a rail of the listener. Pure functions, any thread.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "net/wireup/handshake.h"
#include "verbs/gid.h"

namespace railwise::net {

struct RailPair {
  uint8_t listener_rail;
  uint8_t connector_gid;  // positions in the GID lists of the two rails
  uint8_t listener_gid;
  verbs::Reach reach;
};

// For each lane of the connector, the best rail of the listener, or nothing if none can be reached. Lane i is
// on the connector's rail i mod `connector.rails`. These rules decide, each only where the rules before it
// leave a tie: a nearer subnet; a plane that is equal or not known on one side; a rail that fewer lanes have
// yet; the rail with the same number in the network; the rail at the same place in the list.
// `subnet_prefix_bits`: NCCL_IB_SUBNET_PREFIX_LEN. `allowed` (rail of the connector, rail of the listener):
// which rails may be paired; empty: all.
std::vector<std::optional<RailPair>> pairRails(const EndInfo& connector, const EndInfo& listener, int lanes,
                                               int subnet_prefix_bits,
                                               const std::function<bool(int, int)>& allowed = {});

// The GIDs in a rail's description.
verbs::GidList railGids(const RailInfo& rail);

}  // namespace railwise::net
