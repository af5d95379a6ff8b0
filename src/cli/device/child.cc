#include "cli/device/child.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/process.h"
#include "cli/options/message.h"

namespace railwise::cli {
namespace {

constexpr int kForwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGWINCH};

bool takesNext(const std::vector<Option>& table, std::string_view arg) {
  if (arg.find('=') != std::string_view::npos || arg.size() < 2) return false;
  const bool is_long = arg.starts_with("--");
  return std::any_of(table.begin(), table.end(), [&](const Option& option) {
    if (option.value != Option::kRequired) return false;
    return is_long ? arg.substr(2) == option.long_name : arg.size() == 2 && arg[1] == option.short_name;
  });
}

}  // namespace

int executeCommand(char* const* command) {
  execvp(command[0], command);
  const int error = errno;
  if (error == ENOENT) {
    say("device run: %s: no such command", command[0]);
    return kExitNotFound;
  }
  say("device run: cannot run %s: %s", command[0], std::strerror(error));
  return kExitCannotRun;
}

ChildRunner::ChildRunner() {
  sigemptyset(&waited_);
  sigaddset(&waited_, SIGCHLD);
  for (const int signal : kForwarded) sigaddset(&waited_, signal);
  sigprocmask(SIG_BLOCK, &waited_, &before_);
}

ChildRunner::~ChildRunner() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

int ChildRunner::run(char* const* command) {
  ProcessPlan plan;
  plan.body = [&](std::string&) {
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    return executeCommand(command);
  };
  auto child = Process::start(plan);
  if (!child.ok()) {
    say("device run: cannot start a process: %s", child.error().c_str());
    return kExitRunFailed;
  }
  while (true) {
    siginfo_t info = {};
    const int signal = sigwaitinfo(&waited_, &info);
    if (signal < 0) continue;
    // The kernel sends its signals (Ctrl-C, a hang-up, a new window size) to the whole process group, which
    // includes the command.
    const bool to_us_alone = info.si_code <= 0;
    if (signal != SIGCHLD) {
      if (to_us_alone) child->kill(signal);
      continue;
    }
    if (const auto& end = child->ended()) return end->signalled ? -end->code : end->code;
  }
}

int leaveLike(int result) {
  if (result >= 0) return result;
  const rlimit no_core = {0, 0};  // the core file of the command itself is the useful one
  setrlimit(RLIMIT_CORE, &no_core);
  signal(-result, SIG_DFL);
  raise(-result);
  constexpr int kSignalled = 128;
  return kSignalled - result;
}

std::vector<const char*> ownArguments(const std::vector<Option>& table, Args args) {
  std::vector<const char*> own;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string_view arg = args[i];
    if (arg == "--" || !arg.starts_with('-') || arg.size() < 2) break;
    own.push_back(args[i]);
    if (takesNext(table, arg) && i + 1 < args.size()) own.push_back(args[++i]);
  }
  return own;
}

}  // namespace railwise::cli
