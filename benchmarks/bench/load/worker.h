// The process of `railwise bench` that loads a plugin. It reads one order per line from stdin and answers on
// stdout.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// The first argument of a worker's command line; never typed by a user.
inline constexpr const char* kBenchWorker = "--worker";
// The function that `count` calls; callgrind counts only inside it.
inline constexpr const char* kCountedFunction = "railwiseBenchCounted";
// The function in which ranks that are only put to make progress (one-sided patterns).
inline constexpr const char* kTargetsFunction = "railwiseBenchTargets";

// The worker writes `ready API NAME` or `error TEXT`. Then it answers each line: `run MESSAGES` with `ran
// CPU_NS WALL_NS` (for a ping-pong followed by the minimum, p50, p90 and p99 of the latency), `count
// MESSAGES` with `counted FILE`; each may also be answered with `error TEXT`. It ends when its input ends.
// For a task that measures connections it writes `ready API NAME` and `connected CPU_NS WALL_NS BYTES`, the
// cost of one connection. `args`: the words of a BenchTask.
int benchWorker(Args args);

}  // namespace railwise::cli
