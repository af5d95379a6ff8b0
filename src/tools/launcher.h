// Starts the ranks of a perf job on this machine as processes of this same executable and watches over them:
// when one dies the others are given time to say why they end, then killed; when the launcher dies the kernel
// ends them; Ctrl-C ends all. Main thread, no other thread may run.
#pragma once

#include <span>

namespace railwise::tools {

// `args`: the arguments of the ranks, without the executable. `software_fallback`: for RankIdentity. The
// answer is the command's exit status.
int launchRanks(int ranks, std::span<const char* const> args, bool software_fallback);

}  // namespace railwise::tools
