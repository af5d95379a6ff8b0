// Ends of a connection, for tests of what chooses paths between them.
#pragma once

#include <string>

#include "net/paths/epoch_plan.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

// An end whose InfiniBand rails, "a0", "a1" ... for name "a", reach those of all other such ends.
inline EndInfo makeEnd(const std::string& name, int rails) {
  EndInfo end = {};
  for (int i = 0; i < rails; ++i) {
    RailInfo& rail = end.rail[end.rails++];
    copyText(rail.device, name + std::to_string(i));
    rail.link_layer = LinkLayer::kInfiniBand;
    rail.port = 1;
    rail.rail = rail.plane = -1;
    rail.gid_count = 1;
    rail.gids[0][0] = 0xfe;
    rail.gids[0][1] = 0x80;
    rail.gids[0][15] = static_cast<uint8_t>(i + 1);
  }
  return end;
}

// From rail `from` of an end "a" to rail `to` of an end "b".
inline RailPath path(int from, int to) {
  return {"a" + std::to_string(from) + " port 1", "b" + std::to_string(to) + " port 1"};
}

}  // namespace railwise::net
