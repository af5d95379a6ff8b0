// Runs the command of `railwise device run`. Main thread, and no other thread may run.
#pragma once

#include <csignal>
#include <vector>

#include "cli/options/options.h"

namespace railwise::cli {

// Exit statuses, as the programs env, timeout and nohup use them.
inline constexpr int kExitRunFailed = 125;
inline constexpr int kExitCannotRun = 126;
inline constexpr int kExitNotFound = 127;

// Replaces this process by the command. Returns only if that fails: it reports the reason and returns the
// exit status.
int executeCommand(char* const* command);

// Holds signals back from construction on. run() starts the command and passes on the signals that this
// process receives. It returns the command's exit status, or minus the number of the signal that ended the
// command. If this process is killed, the command is killed too.
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

// Returns the exit status for a result of run(). If a signal ended the command, it ends this process by the
// same signal.
int leaveLike(int result);

// Returns the arguments before the command: options with their values, up to "--" or the first word that is
// not an option.
std::vector<const char*> ownArguments(const std::vector<Option>& table, Args args);

}  // namespace railwise::cli
