// The process of `railwise bench` that has a plugin: it does what its stdin says, a line each, and answers on
// stdout.
#pragma once

#include "tools/commands.h"

namespace railwise::tools {

// The first argument of a worker's command line; never typed by a user.
inline constexpr const char* kBenchWorker = "--worker";

// All that `count` runs: what callgrind is told to count.
inline constexpr const char* kCountedFunction = "railwiseBenchCounted";

// `ready API PID NAME` or `error TEXT`, then for each line `run MESSAGES` the answer `ran CPU_NS WALL_NS`,
// for `count MESSAGES` `counted PLUGIN_FILE`, or `error TEXT`; ends with its input. Arguments: API (0: the
// newest) DEVICE SIZE WINDOW GROUPED VERBOSE [PLUGIN].
int benchWorker(Args args);

}  // namespace railwise::tools
