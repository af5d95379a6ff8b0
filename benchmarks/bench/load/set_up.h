// Measures what a connection costs before its first message: the time to set it up and the memory to hold it.
// One thread.
#pragma once

#include <cstdint>

#include "base/outcome.h"
#include "cli/plugin/net_api.h"

namespace railwise::cli {

// The cost of one connection, both ends together.
struct BenchSetUp {
  double cpu_ns;   // CPU time of all threads of the process
  double wall_ns;  // elapsed time; the connections are set up one after the other
  // By how much the process has grown: proportional set size, including the device's memory.
  double bytes;
  double close_cpu_ns;     // CPU time to close it, of all threads of the process
  double register_cpu_ns;  // CPU time of a regMr of new memory and its deregMr
};

// Opens `connections` connections, registers memory with the first one, and closes them; measures all of
// that.
Outcome<BenchSetUp> setUpConnections(NetApi& api, int device, int connections);

}  // namespace railwise::cli
