#include "cli/doctor/pair_launch.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "cli/hosts/run_on_hosts.h"
#include "cli/options/message.h"
#include "cli/options/options.h"

namespace railwise::cli {
namespace {

constexpr auto kWatchPeriod = std::chrono::milliseconds(20);
// When one end fails early, others often fail for the same reason: all of them are named.
constexpr auto kForTheOthers = std::chrono::milliseconds(500);
constexpr auto kEndLimit = std::chrono::seconds(5);

}  // namespace

PairLaunch::~PairLaunch() {
  joined_ = true;
  if (watcher_.joinable()) watcher_.join();
  const Deadline deadline = Deadline::after(kEndLimit);
  for (Child& child : children_) child.process.closeInput();
  for (Child& child : children_) child.process.wait(deadline);
}

Outcome<void> PairLaunch::start(const std::vector<PairCommand>& commands, const std::string& contact) {
  for (const PairCommand& command : commands) {
    ProcessPlan plan;
    plan.words = command.words;
    plan.variables = command.environment;
    plan.input = kStreamPipe;
    plan.input_text = contact;
    plan.output = STDERR_FILENO;  // greetings of a shell are no part of the report
    auto process = Process::start(plan);
    if (!process.ok()) return Error{"the end of " + command.host + " cannot be started: " + process.error()};
    children_.push_back({std::move(*process), command.host, command.words[0]});
  }
  return {};
}

bool PairLaunch::anyEnded() {
  return std::any_of(children_.begin(), children_.end(),
                     [](Child& child) { return !child.process.running(); });
}

void PairLaunch::watch() {
  watcher_ = std::thread([this] {
    while (!joined_) {
      if (anyEnded()) reportAndLeave();
      std::this_thread::sleep_for(kWatchPeriod);
    }
  });
}

void PairLaunch::reportAndLeave() {
  std::this_thread::sleep_for(kForTheOthers);
  if (joined_) return;
  clearProgress();
  for (Child& child : children_) {
    if (child.process.running()) {
      child.process.kill(SIGTERM);
      continue;
    }
    const int status = child.process.wait().shellStatus();
    const char* const hint = status == Process::kNoProgram ? kNoProgramText
                             : status == 255 ? " (255: ssh itself failed, and its reason stands above)"
                                             : "";
    say("doctor: %s: '%s' ended with status %d before the end was there%s", child.host.c_str(),
        child.program.c_str(), status, hint);
  }
  _exit(kExitUsage);  // 2: an error; the main thread waits for the ends that do not come
}

}  // namespace railwise::cli
