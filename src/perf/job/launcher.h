// Starts the ranks of a perf job on this machine as processes of this same executable and watches over them:
// when one dies the others are given time to say why they end, then killed; when the launcher dies the kernel
// ends them; Ctrl-C ends all. Main thread, no other thread may run.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace railwise::tools {

// What became of a rank's process.
struct ProcessEnd {
  int exit_status = -1;  // 128 + signal when one ended it; -1: it was never started
  bool killed = false;   // it did not end when the others had, and was killed
};

struct Launch {
  int ranks = 1;
  std::span<const char* const> args;  // of the ranks, without the executable
  bool software_fallback = false;     // for RankIdentity
  // Variables of a rank besides those of the launcher; null: none.
  std::function<std::vector<std::pair<std::string, std::string>>(int rank)> environment = nullptr;
  int record_fd = -1;          // a descriptor that the ranks inherit (perf/collective/record.h); -1: none
  bool adopt_orphans = false;  // ranks may leave no process behind
  // Called again and again while ranks run; null: never.
  std::function<void()> tick = nullptr;
  std::chrono::milliseconds tick_period{200};
};

struct Launched {
  int exit_status = 1;  // the command's
  int signal = 0;       // that was sent to the launcher
  std::vector<ProcessEnd> ends;
  bool orphans = false;  // with adopt_orphans: a rank left a process behind, which was killed
};
Launched launchRanks(const Launch& launch);

}  // namespace railwise::tools
