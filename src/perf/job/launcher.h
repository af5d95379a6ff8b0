// Starts the ranks of a perf job on this machine, as processes of this executable, and watches over them.
// When a rank dies, the others get time to report why they end, and are then killed. When the launcher dies,
// the kernel ends the ranks. Ctrl-C ends all of them. A rank whose output nobody reads any more sends the
// launcher SIGPIPE, and all end without a word. Main thread, and no other thread may run.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace railwise::cli {

// How a rank's process ended.
struct EndOfRank {
  int exit_status = -1;  // 128 + signal if a signal ended it; -1: it was never started
  bool killed = false;   // it did not end when the others had ended, and was killed
};

struct Launch {
  int ranks = 1;
  std::span<const char* const> args;  // arguments of the ranks, without the executable
  bool software_fallback = false;     // passed on in RankIdentity
  // Variables of a rank, in addition to those of the launcher. Null: there are none.
  std::function<std::vector<std::pair<std::string, std::string>>(int rank)> environment = nullptr;
  int record_fd = -1;          // a descriptor that the ranks inherit (perf/results/record.h); -1: none
  bool adopt_orphans = false;  // kill processes that ranks leave behind
  // Called repeatedly while ranks run. Null: nothing is called.
  std::function<void()> tick = nullptr;
  std::chrono::milliseconds tick_period{200};
};

struct Launched {
  int exit_status = 1;  // exit status of the command
  int signal = 0;       // the signal that the launcher received; 0: none. SIGPIPE: nobody reads the output
  std::vector<EndOfRank> ends;
  std::vector<pid_t> pids;
  bool orphans = false;  // with adopt_orphans: a rank left a process behind, and it was killed
};
Launched launchRanks(const Launch& launch);

}  // namespace railwise::cli
