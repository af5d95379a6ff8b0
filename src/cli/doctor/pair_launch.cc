#include "cli/doctor/pair_launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "cli/options/message.h"
#include "cli/options/options.h"

namespace railwise::cli {
namespace {

constexpr auto kWatchPeriod = std::chrono::milliseconds(20);
// When one end fails early, others often fail for the same reason: all of them are named.
constexpr auto kForTheOthers = std::chrono::milliseconds(500);
constexpr auto kEndLimit = std::chrono::seconds(5);
constexpr int kNotStarted = 127;

// Runs in the child between fork and exec: only calls that are safe there.
[[noreturn]] void becomeEnd(char* const* words, char* const* environment, int input, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kNotStarted);
  dup2(input, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // greetings of a shell are no part of the report
  execvpe(words[0], words, environment);
  _exit(kNotStarted);
}

std::vector<std::string> environmentWith(const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string line = *each;
    const bool replaced = std::any_of(added.begin(), added.end(), [&](const auto& variable) {
      return line.substr(0, line.find('=')) == variable.first;
    });
    if (!replaced) all.push_back(line);
  }
  for (const auto& [name, value] : added) all.emplace_back(name).append("=").append(value);
  return all;
}

std::vector<char*> pointersTo(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

PairLaunch::~PairLaunch() {
  joined_ = true;
  if (watcher_.joinable()) watcher_.join();
  const Deadline deadline = Deadline::after(kEndLimit);
  for (Child& child : children_) {
    close(child.input);
    while (!child.ended && !deadline.passed() && !reap()) std::this_thread::sleep_for(kWatchPeriod);
    if (child.ended) continue;
    kill(child.pid, SIGKILL);
    (void)waitpid(child.pid, nullptr, 0);
  }
}

Outcome<void> PairLaunch::start(const std::vector<PairCommand>& commands, const std::string& contact) {
  for (const PairCommand& command : commands) {
    if (auto started = startOne(command, contact); !started.ok()) return started;
  }
  return {};
}

Outcome<void> PairLaunch::startOne(const PairCommand& command, const std::string& contact) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Error{textOf("no pipe for %s: %m", command.host.c_str())};
  // A line that fits into the pipe is written before the end reads it.
  const bool written = write(ends[1], contact.data(), contact.size()) == static_cast<ssize_t>(contact.size());
  std::vector<std::string> words = command.words;
  std::vector<std::string> variables = environmentWith(command.environment);
  const std::vector<char*> argv = pointersTo(words);
  const std::vector<char*> envp = pointersTo(variables);
  const pid_t parent = getpid();
  const pid_t pid = written ? fork() : -1;
  if (pid == 0) becomeEnd(argv.data(), envp.data(), ends[0], parent);
  close(ends[0]);
  if (pid < 0) {
    close(ends[1]);
    return Error{textOf("the end of %s cannot be started: %m", command.host.c_str())};
  }
  children_.push_back({.pid = pid, .host = command.host, .program = command.words[0], .input = ends[1]});
  return {};
}

// True if a child has ended since the last call.
bool PairLaunch::reap() {
  bool any = false;
  for (Child& child : children_) {
    if (child.ended || waitpid(child.pid, &child.status, WNOHANG) != child.pid) continue;
    child.ended = true;
    any = true;
  }
  return any;
}

void PairLaunch::watch() {
  watcher_ = std::thread([this] {
    while (!joined_) {
      if (reap()) reportAndLeave();
      std::this_thread::sleep_for(kWatchPeriod);
    }
  });
}

void PairLaunch::reportAndLeave() {
  const Deadline deadline = Deadline::after(kForTheOthers);
  while (!deadline.passed()) {
    reap();
    std::this_thread::sleep_for(kWatchPeriod);
  }
  if (joined_) return;
  clearProgress();
  for (const Child& child : children_) {
    if (!child.ended) {
      kill(child.pid, SIGTERM);
      continue;
    }
    const int status = WIFEXITED(child.status) ? WEXITSTATUS(child.status) : 128 + WTERMSIG(child.status);
    const char* const hint = status == kNotStarted
                                 ? " (127: there is no such program here, or no railwise at this path there: "
                                   "--program PATH says where it is)"
                             : status == 255 ? " (255: ssh itself failed, and its reason stands above)"
                                             : "";
    say("doctor: %s: '%s' ended with status %d before the end was there%s", child.host.c_str(),
        child.program.c_str(), status, hint);
  }
  _exit(kExitUsage);  // 2: an error; the main thread waits for the ends that do not come
}

}  // namespace railwise::cli
