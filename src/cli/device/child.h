// Running the command of `railwise device run`. Main thread, no other thread may run.
#pragma once

#include <csignal>
#include <vector>

#include "cli/options/options.h"

namespace railwise::tools {

// As env, timeout and nohup have it.
inline constexpr int kExitRunFailed = 125;
inline constexpr int kExitCannotRun = 126;
inline constexpr int kExitNotFound = 127;

// Replaces this process; returns, with the exit status and after saying why, only when that fails.
int executeCommand(char* const* command);

// Signals wait from construction on. run() starts the command, which gets the signals that this process is
// sent, and answers its exit status, or minus the signal that ended it. When this process is killed the
// command is too.
class ChildRunner {
 public:
  ChildRunner();
  ChildRunner(const ChildRunner&) = delete;
  ChildRunner& operator=(const ChildRunner&) = delete;
  ~ChildRunner();

  int run(char* const* command);

 private:
  sigset_t before_;
  sigset_t waited_;
};

// The exit status for run()'s answer; ends this process by the same signal when that was the command's end.
int leaveLike(int result);

// The arguments before the command: options with their values, up to "--" or the first word that is no
// option.
std::vector<const char*> ownArguments(const std::vector<Option>& table, Args args);

}  // namespace railwise::tools
