// Compares both ends of a connection: do they have the same plugin, settings and GPU driver, NICs of one
// kind, speed and firmware, and equally many NICs? A difference that makes a connection impossible is refused
// elsewhere, with the names of both ends (fabric, link layer, GIDs, protocol version). This file finds
// differences with which the connection works, but which are seldom intended. compareEnds() is pure. Any
// thread.
#pragma once

#include <string>
#include <vector>

#include "base/settings/config.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

struct Difference {
  const char* kind;  // "MTU", for example; the process logs each kind only once
  std::string text;  // names both ends, and what to do
};

std::vector<Difference> compareEnds(const EndInfo& here, const EndInfo& there);

// The first difference that `strict` does not accept, in words, "" if there is none: `speed` refuses ends of
// different speed, `version` refuses all other differences.
std::string refusedDifference(const StrictMode& strict, const EndInfo& here, const EndInfo& there);

// Logs each kind of difference once per process.
void warnOfDifferences(const EndInfo& here, const EndInfo& there);

}  // namespace railwise::net
