#include "perf/job/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "base/secrets.h"
#include "base/socket.h"
#include "cli/options/message.h"
#include "cli/options/options.h"
#include "perf/job/rank_environment.h"

namespace railwise::cli {
namespace {

// The time from the first rank's failure, or from a signal, until the remaining ranks are killed.
constexpr auto kGrace = std::chrono::seconds(5);

std::vector<pid_t> childrenOfThis() {
  std::vector<pid_t> children;
  std::FILE* const list = std::fopen("/proc/thread-self/children", "re");
  for (int pid = 0; list != nullptr && std::fscanf(list, "%d", &pid) == 1;) children.push_back(pid);
  if (list != nullptr) std::fclose(list);
  return children;
}

class Launcher {
 public:
  explicit Launcher(const Launch& launch) : launch_(launch), ends_(static_cast<std::size_t>(launch.ranks)) {}

  Launched run() {
    before_ = childrenOfThis();
    Launched launched;
    launched.exit_status = runAll();
    launched.signal = signal_;
    launched.orphans = endOrphans();
    launched.ends = ends_;
    for (const Process& rank : ranks_) launched.pids.push_back(rank.pid());
    return launched;
  }

 private:
  int runAll() {
    if (launch_.adopt_orphans) prctl(PR_SET_CHILD_SUBREAPER, 1);
    const uint8_t loopback[] = {127, 0, 0, 1};
    auto listener = Socket::listen(SocketAddress(AF_INET, loopback, 0, 0), launch_.ranks + 64);
    if (!listener.ok())
      return leave(kExitFailed, "cannot listen on 127.0.0.1: %s", std::strerror(listener.status().sys_errno));
    secret_ = randomHex();
    blockSignals();
    for (int rank = 0; rank < launch_.ranks; ++rank) {
      auto started = start(rank, *listener);
      if (started.ok()) {
        ranks_.push_back(std::move(*started));
        continue;
      }
      say("cannot start rank %d: %s", rank, started.error().c_str());
      failed_ = true;
      killAll(SIGKILL);
      break;
    }
    listener->close();
    watch();
    if (signal_ != 0) return 128 + signal_;
    return failed_ ? kExitFailed : kExitOk;
  }

  // Ends processes that ranks left behind. They have become children of this process.
  bool endOrphans() const {
    if (!launch_.adopt_orphans) return false;
    bool any = false;
    for (const pid_t pid : childrenOfThis()) {
      if (std::find(before_.begin(), before_.end(), pid) != before_.end()) continue;
      if (waitpid(pid, nullptr, WNOHANG) == pid) continue;  // the process had already ended
      say("a rank left process %d behind: killing it", static_cast<int>(pid));
      kill(pid, SIGKILL);
      (void)waitpid(pid, nullptr, 0);
      any = true;
    }
    return any;
  }

  void blockSignals() {
    sigemptyset(&watched_);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&watched_, number);
    sigprocmask(SIG_BLOCK, &watched_, &original_mask_);
  }

  Outcome<Process> start(int rank, const Socket& listener) const {
    ProcessPlan plan;
    plan.input = kStreamNothing;
    plan.body = [&, launcher = getpid()](std::string&) { return becomeRank(rank, listener, launcher); };
    return Process::start(plan);
  }

  // Returns only if that fails.
  int becomeRank(int rank, const Socket& listener, pid_t launcher) const {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // the rank says then that the launcher is gone
    const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
    set(kRankVariable, std::to_string(rank));
    set(kSizeVariable, std::to_string(launch_.ranks));
    set(kAddressVariable, listener.localAddress().text());
    set(kSecretVariable, secret_);
    set(kLauncherVariable, std::to_string(launcher));
    set(kFallbackVariable, launch_.software_fallback ? "1" : "0");
    if (launch_.environment) {
      for (const auto& [name, value] : launch_.environment(rank)) set(name.c_str(), value);
    }
    if (launch_.record_fd >= 0) {
      fcntl(launch_.record_fd, F_SETFD, 0);  // the descriptor stays open after exec
      set(kRecordVariable, std::to_string(launch_.record_fd));
    }
    if (rank == 0) {
      fcntl(listener.fd(), F_SETFD, 0);
      set(kListenFdVariable, std::to_string(listener.fd()));
    }
    std::vector<std::string> words = {"railwise"};
    words.insert(words.end(), launch_.args.begin(), launch_.args.end());
    sigprocmask(SIG_SETMASK, &original_mask_, nullptr);
    execv("/proc/self/exe", argvOf(words).data());
    return kExitFailed;
  }

  bool anyRunning() {
    return std::any_of(ranks_.begin(), ranks_.end(), [](Process& rank) { return rank.running(); });
  }

  void killAll(int number) {
    for (Process& rank : ranks_) rank.kill(number);
  }

  void watch() {
    while (anyRunning()) {
      if (launch_.tick) launch_.tick();
      const timespec tick = {.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(launch_.tick_period).count()};
      const int number = sigtimedwait(&watched_, nullptr, &tick);
      if (number > 0 && number != SIGCHLD) interrupted(number);
      reap();
      if (deadline_ && deadline_->passed() && !killed_) {
        killed_ = true;
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
          if (!ranks_[rank].running()) continue;
          ends_[rank].killed = true;
          say("rank %zu (pid %d) did not end: killing it", rank, static_cast<int>(ranks_[rank].pid()));
        }
        killAll(SIGKILL);
      }
    }
    reap();
  }

  void interrupted(int number) {
    if (number == SIGPIPE) {
      // Nobody reads on: `perf | head`. SIGKILL, because a rank must not report that another one is gone.
      signal_ = number;
      return killAll(SIGKILL);
    }
    if (signal_ == 0) say("ended by signal %d (%s)", number, strsignal(number));
    signal_ = number;
    killAll(SIGTERM);
    beginGrace();
  }

  void beginGrace() {
    if (!deadline_) deadline_ = Deadline::after(kGrace);
  }

  void reap() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& end = ranks_[rank].ended();
      if (!end || ends_[rank].exit_status >= 0) continue;
      ends_[rank].exit_status = end->shellStatus();
      if (end->good()) continue;
      failed_ = true;
      beginGrace();
      if (signal_ != 0 || killed_) continue;
      const int pid = static_cast<int>(ranks_[rank].pid());
      if (end->signalled)
        say("rank %zu (pid %d) was killed by signal %d (%s)", rank, pid, end->code, strsignal(end->code));
      else if (end->code != kExitFailed)  // a rank that fails reports the reason itself
        say("rank %zu (pid %d) ended with status %d", rank, pid, end->code);
    }
  }

  const Launch& launch_;
  std::vector<pid_t> before_;  // child processes that this launcher did not start
  std::string secret_;
  std::vector<Process> ranks_;   // those that were started
  std::vector<EndOfRank> ends_;  // of all ranks
  sigset_t watched_;
  sigset_t original_mask_;
  std::optional<Deadline> deadline_;
  bool failed_ = false;
  bool killed_ = false;
  int signal_ = 0;
};

}  // namespace

Launched launchRanks(const Launch& launch) { return Launcher(launch).run(); }

}  // namespace railwise::cli
