// A rank that is there to be killed: it and its peer send each other messages through the plugin's network,
// with connections that come and go and faults in between, so that its record is always being written.
#pragma once

#include <string>

namespace railwise::test {

struct RankSettings {
  std::string folder;   // of its record
  std::string devices;  // RAILWISE_DEVICE
  int rails = 1;        // 2: the connections are on both devices
  int peer = -1;        // a socket to the other rank
  int ready = -1;       // gets a byte when the first messages have arrived
};

// Never returns: a rank that cannot go on, because its peer was killed, waits to be killed itself.
[[noreturn]] void runRank(const RankSettings& settings);

}  // namespace railwise::test
