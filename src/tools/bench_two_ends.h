// A plugin whose two ends have a thread or a process each, and a copy of the plugin's context each, as ranks
// of NCCL have.
#pragma once

#include <memory>

#include "tools/bench_load.h"

namespace railwise::tools {

// Starts the other process here, if it is to be one: before any plugin and any thread.
std::unique_ptr<BenchLoad> makeTwoEnds(const BenchTask& task);

}  // namespace railwise::tools
