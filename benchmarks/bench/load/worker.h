// The process of `railwise bench` that has a plugin: it does what its stdin says, a line each, and answers on
// stdout.
#pragma once

#include "cli/options/options.h"

namespace railwise::tools {

// The first argument of a worker's command line; never typed by a user.
inline constexpr const char* kBenchWorker = "--worker";
// All that `count` runs: what callgrind is told to count.
inline constexpr const char* kCountedFunction = "railwiseBenchCounted";

// `ready API NAME` or `error TEXT`, then for each line `run MESSAGES` the answer `ran CPU_NS WALL_NS` (of a
// ping-pong also the least, p50, p90 and p99 of the latency), for `count MESSAGES` `counted FILE`, or `error
// TEXT`; ends with its input. For a task of connections `ready API NAME` and `connected CPU_NS WALL_NS
// BYTES`, each of one connection. Arguments: the words of a BenchTask.
int benchWorker(Args args);

}  // namespace railwise::tools
