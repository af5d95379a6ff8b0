// What a connection costs before its first message: time to set it up and memory to hold it. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/plugin/net_api.h"

namespace railwise::tools {

// Of one connection, both ends.
struct BenchSetUp {
  double cpu_ns;   // of all threads of the process
  double wall_ns;  // one connection after the other
  double bytes;    // that the process grew by (proportional set size, the device's memory included)
};

// Opens them, measures, and closes them. Nothing: `error` says why.
std::optional<BenchSetUp> setUpConnections(NetApi& api, int device, int connections, std::string* error);

}  // namespace railwise::tools
