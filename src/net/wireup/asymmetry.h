// Whether both ends of a connection are what their owner believes: the same plugin and settings, NICs of one
// kind and speed, as many of them. What makes a connection impossible is refused elsewhere, with both sides'
// names (fabric, link layer, GIDs, protocol version); this is what works and is seldom meant. Pure function,
// any thread.
#pragma once

#include <string>
#include <vector>

#include "net/wireup/handshake.h"

namespace railwise::net {

struct Difference {
  const char* kind;  // "MTU": one line of it is enough for a process
  std::string text;  // names both ends, and what to do
};

std::vector<Difference> compareEnds(const EndInfo& here, const EndInfo& there);

// Logs each kind once in the life of the process.
void warnOfDifferences(const EndInfo& here, const EndInfo& there);

}  // namespace railwise::net
